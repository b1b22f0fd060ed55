// Written by tools/webtypes.py from the OpenAPI documents of penstock restd; not to be edited.

export interface Accounting {
  TRES: Tres;
  allocated: { seconds: number; };
  id: number;
  id_alt: number;
  start: number;
}

export interface AcctGatherEnergy {
  average_watts: number;
  base_consumed_energy: number;
  consumed_energy: number;
  current_watts: Uint32NoValStruct;
  last_collected: number;
  previous_consumed_energy: number;
}

export interface AssocShort {
  account: string;
  cluster: string;
  id: number;
  partition: string;
  user: string;
}

export interface Coord {
  direct: boolean;
  name: string;
}

export interface Float64NoValStruct {
  infinite: boolean;
  number: number;
  set: boolean;
}

export interface ForecastAnswer {
  jobs: ({ job_id: number; shown_id: string; name: string; user_name: string; partition: string; priority: number; reason: string; start_at_us: number; node_list: string; })[];
  errors: OwnError[];
  warnings: OwnWarning[];
}

export interface GpuInfo {
  uuid: string;
  index: number;
  minor: number;
  type: string;
  memory_mb: number;
  name: string;
  bus_id: string;
  state: string;
  reason: string;
  reason_user: string;
  since_us: number;
  job_ids: number[];
  parent_uuid: string;
  profile: string;
  work: string;
  many_only: boolean;
  slot: number;
  capability: string;
  serial: string;
  xids: GpuXid[];
  notes: string[];
}

export interface GpuXid {
  xid: number;
  times: number;
  last_us: number;
}

export interface GpusAnswer {
  gpus: (GpuInfo & { node: string; })[];
  errors: OwnError[];
  warnings: OwnWarning[];
}

export interface Hint {
  options: string[];
  start_at_us: number;
  node_list: string;
  starts_now: boolean;
}

export interface Job {
  account: string;
  allocation_nodes: number;
  array: { job_id: number; limits: { max: { running: { tasks: number; }; }; }; task: string; task_id: Uint32NoValStruct; };
  association: AssocShort;
  block: string;
  cluster: string;
  comment: { administrator: string; job: string; system: string; };
  constraints: string;
  container: string;
  derived_exit_code: ProcessExitCodeVerbose;
  exclusive: string;
  exit_code: ProcessExitCodeVerbose;
  extra: string;
  failed_node: string;
  flags: string[];
  group: string;
  het: { job_id: number; job_offset: Uint32NoValStruct; };
  hold: boolean;
  job_id: number;
  kill_request_user: string;
  licenses: string;
  mcs: { label: string; };
  name: string;
  nodes: string;
  original_sluid: string;
  oversubscribe: string;
  partition: string;
  priority: Uint32NoValStruct;
  qos: string;
  qosreq: string;
  required: { CPUs: number; memory_per_cpu: Uint64NoValStruct; memory_per_node: Uint64NoValStruct; };
  reservation: { id: number; name: string; requested: string; };
  restart_cnt: number;
  script: string;
  segment_size: number;
  sluid: string;
  state: { current: string[]; reason: string; };
  stderr: string;
  stderr_expanded: string;
  stdin: string;
  stdin_expanded: string;
  stdout: string;
  stdout_expanded: string;
  steps: Step[];
  submit_line: string;
  time: { elapsed: number; eligible: number; end: number; limit: Uint32NoValStruct; planned: Uint64NoValStruct; start: number; submission: number; suspended: number; system: { microseconds: number; seconds: number; }; total: { microseconds: number; seconds: number; }; user: { microseconds: number; seconds: number; }; };
  tres: { allocated: Tres[]; requested: Tres[]; };
  used_gres: string;
  user: string;
  wckey: WckeyTagStruct;
  working_directory: string;
}

export interface JobDetailsAnswer {
  errors: OpenapiError[];
  jobs: JobInfo[];
  last_backfill: Uint64NoValStruct;
  last_update: Uint64NoValStruct;
  meta: OpenapiMeta;
  warnings: OpenapiWarning[];
}

export interface JobInFront {
  job_id: number;
  user_name: string;
  nodes: number;
  start_at_us: number;
  node_list: string;
  shown_id: string;
}

export interface JobInfo {
  account: string;
  accrue_time: Uint64NoValStruct;
  admin_comment: string;
  allocating_node: string;
  array_job_id: Uint32NoValStruct;
  array_max_tasks: Uint32NoValStruct;
  array_task_id: Uint32NoValStruct;
  array_task_string: string;
  association_id: number;
  batch_features: string;
  batch_flag: boolean;
  batch_host: string;
  billable_tres: Float64NoValStruct;
  burst_buffer: string;
  burst_buffer_state: string;
  cluster: string;
  cluster_features: string;
  command: string;
  comment: string;
  container: string;
  container_id: string;
  contiguous: boolean;
  core_spec: number;
  cores_per_socket: Uint16NoValStruct;
  cpu_frequency_governor: Uint32NoValStruct;
  cpu_frequency_maximum: Uint32NoValStruct;
  cpu_frequency_minimum: Uint32NoValStruct;
  cpus: Uint32NoValStruct;
  cpus_per_task: Uint16NoValStruct;
  cpus_per_tres: string;
  cron: string;
  current_working_directory: string;
  deadline: Uint64NoValStruct;
  delay_boot: Uint32NoValStruct;
  dependency: string;
  derived_exit_code: ProcessExitCodeVerbose;
  eligible_time: Uint64NoValStruct;
  end_time: Uint64NoValStruct;
  excluded_nodes: string;
  exit_code: ProcessExitCodeVerbose;
  extra: string;
  failed_node: string;
  features: string;
  federation_origin: string;
  federation_siblings_active: string;
  federation_siblings_viable: string;
  flags: string[];
  gres_detail: string[];
  group_id: number;
  group_name: string;
  het_job_id: Uint32NoValStruct;
  het_job_id_set: string;
  het_job_offset: Uint32NoValStruct;
  hold: boolean;
  job_id: number;
  job_resources: JobRes;
  job_size_str: string[];
  job_state: string[];
  last_sched_evaluation: Uint64NoValStruct;
  licenses: string;
  licenses_allocated: string;
  mail_type: string[];
  mail_user: string;
  max_cpus: Uint32NoValStruct;
  max_nodes: Uint32NoValStruct;
  maximum_switch_wait_time: number;
  mcs_label: string;
  memory_per_cpu: Uint64NoValStruct;
  memory_per_node: Uint64NoValStruct;
  memory_per_tres: string;
  memory_update_delay: number;
  memory_update_margin: number;
  minimum_cpus_per_node: Uint16NoValStruct;
  minimum_tmp_disk_per_node: Uint32NoValStruct;
  name: string;
  network: string;
  nice: number;
  node_count: Uint32NoValStruct;
  nodes: string;
  partition: string;
  pre_sus_time: Uint64NoValStruct;
  preempt_time: Uint64NoValStruct;
  preemptable_time: Uint64NoValStruct;
  prefer: string;
  priority: Uint32NoValStruct;
  priority_by_partition: PartPrio[];
  profile: string[];
  qos: string;
  reboot: boolean;
  requeue: boolean;
  required_nodes: string;
  required_switches: number;
  resize_time: Uint64NoValStruct;
  restart_cnt: number;
  resv_name: string;
  runtime: string;
  scheduled_nodes: string;
  segment_size: number;
  selinux_context: string;
  shared: string[];
  sockets_per_board: number;
  sockets_per_node: Uint16NoValStruct;
  standard_error: string;
  standard_input: string;
  standard_output: string;
  start_time: Uint64NoValStruct;
  state_description: string;
  state_reason: string;
  stderr_expanded: string;
  stdin_expanded: string;
  stdout_expanded: string;
  step_id: SlurmStepId;
  submit_line: string;
  submit_time: Uint64NoValStruct;
  suspend_time: Uint64NoValStruct;
  system_comment: string;
  tasks: Uint32NoValStruct;
  tasks_per_board: Uint16NoValStruct;
  tasks_per_core: Uint16NoValStruct;
  tasks_per_node: Uint16NoValStruct;
  tasks_per_socket: Uint16NoValStruct;
  tasks_per_tres: Uint16NoValStruct;
  thread_spec: number;
  threads_per_core: Uint16NoValStruct;
  time_limit: Uint32NoValStruct;
  time_minimum: Uint32NoValStruct;
  tres_alloc_str: string;
  tres_bind: string;
  tres_freq: string;
  tres_per_job: string;
  tres_per_node: string;
  tres_per_socket: string;
  tres_per_task: string;
  tres_req_str: string;
  user_id: number;
  user_name: string;
  wckey: string;
}

export interface JobRes {
  cpus: number;
  nodes: { allocation: JobResNode[]; count: number; list: string; select_type: string[]; whole: boolean; };
  select_type: string[];
  threads_per_core: Uint16NoValStruct;
}

export interface JobResCore {
  index: number;
  status: string[];
}

export interface JobResNode {
  cpus: { count: number; used: number; };
  index: number;
  memory: { allocated: number; used: number; };
  name: string;
  sockets: JobResSocket[];
}

export interface JobResSocket {
  cores: JobResCore[];
  index: number;
}

export interface JobsAnswer {
  jobs: ({ job_id: number; shown_id: string; name: string; user_name: string; account: string; partition: string; qos: string; state: string; reason: string; priority: number; nodes: number; node_list: string; cpus: number; tres: string; submit_at_us: number; start_at_us: number; end_at_us: number; time_limit_s: number; planned_start_at_us: number; })[];
  errors: OwnError[];
  warnings: OwnWarning[];
}

export interface LicensesNeeded {
  name: string;
  wanted: number;
  free: number;
  enough_at_us: number;
}

export interface Node {
  active_features: string[];
  address: string;
  alloc_cpus: number;
  alloc_idle_cpus: number;
  alloc_memory: number;
  architecture: string;
  boards: number;
  boot_time: Uint64NoValStruct;
  burstbuffer_network_address: string;
  cert_flags: string[];
  cluster_name: string;
  comment: string;
  cores: number;
  cpu_binding: number;
  cpu_load: number;
  cpus: number;
  effective_cpus: number;
  energy: AcctGatherEnergy;
  extra: string;
  features: string[];
  free_mem: Uint64NoValStruct;
  gpu_spec: string;
  gres: string;
  gres_drained: string;
  gres_used: string;
  hostname: string;
  instance_id: string;
  instance_type: string;
  last_busy: Uint64NoValStruct;
  mcs_label: string;
  name: string;
  next_state_after_reboot: string[];
  operating_system: string;
  owner: string;
  partitions: string[];
  port: number;
  real_memory: number;
  reason: string;
  reason_changed_at: Uint64NoValStruct;
  reason_set_by_user: string;
  res_cores_per_gpu: number;
  reservation: string;
  resume_after: Uint64NoValStruct;
  slurmd_start_time: Uint64NoValStruct;
  sockets: number;
  specialized_cores: number;
  specialized_cpus: string;
  specialized_memory: number;
  state: string[];
  suspend_time: Uint32NoValStruct;
  temporary_disk: number;
  threads: number;
  tls_cert_last_renewal: Uint64NoValStruct;
  topology: string;
  tres: string;
  tres_used: string;
  version: string;
  weight: number;
}

export interface NodesAnswer {
  errors: OpenapiError[];
  last_update: Uint64NoValStruct;
  meta: OpenapiMeta;
  nodes: Node[];
  warnings: OpenapiWarning[];
}

export interface NodesNeeded {
  partition: string;
  nodes_wanted: number;
  nodes_total: number;
  nodes_qualify: number;
  nodes_up: number;
  nodes_free: number;
  resources: ResourceNeeded[];
  next_free_at_us: number;
  next_free_node: string;
  enough_free_at_us: number;
}

export interface Obstacle {
  reason: string;
  text: string;
  at_us: number;
}

export interface OpenapiError {
  description: string;
  error: string;
  error_number: number;
  source: string;
}

export interface OpenapiMeta {
  client: { group: string; source: string; user: string; };
  command: string[];
  plugin: { accounting_storage: string; data_parser: string; name: string; type: string; };
  slurm: { cluster: string; release: string; version: { major: string; micro: string; minor: string; }; };
}

export interface OpenapiWarning {
  description: string;
  source: string;
}

export interface OwnError {
  description: string;
  error_number: number;
  error: string;
  source: string;
}

export interface OwnWarning {
  description: string;
  source: string;
}

export interface PartPrio {
  partition: string;
  priority: number;
}

export interface PlannedStart {
  start_at_us: number;
  node_list: string;
  partition: string;
  if_released: boolean;
}

export interface ProcessExitCodeVerbose {
  return_code: Uint32NoValStruct;
  signal: { id: Uint16NoValStruct; name: string; };
  status: string[];
}

export interface RecordsAnswer {
  errors: OpenapiError[];
  jobs: Job[];
  meta: OpenapiMeta;
  warnings: OpenapiWarning[];
}

export interface ReservationInTheWay {
  name: string;
  start_at_us: number;
  end_at_us: number;
  nodes: number;
}

export interface ResourceNeeded {
  name: string;
  amount: number;
  nodes_free: number;
}

export interface ScriptAnswer {
  job_id: number;
  script: string;
  errors: OwnError[];
  warnings: OwnWarning[];
}

export interface SlurmStepId {
  job_id: Uint32NoValStruct;
  sluid: string;
  step_het_component: Uint32NoValStruct;
  step_id: string;
}

export interface Step {
  CPU: { governor: string; requested_frequency: { max: Uint32NoValStruct; min: Uint32NoValStruct; }; };
  exit_code: ProcessExitCodeVerbose;
  kill_request_user: string;
  nodes: { count: number; list: string[]; range: string; };
  state: string[];
  statistics: { CPU: { actual_frequency: number; }; energy: { consumed: Uint64NoValStruct; }; };
  step: { id: string; name: string; stderr: string; stderr_expanded: string; stdin: string; stdin_expanded: string; stdout: string; stdout_expanded: string; };
  submit_line: string;
  task: { distribution: string; };
  tasks: { count: number; };
  time: { elapsed: number; end: Uint64NoValStruct; limit: Uint32NoValStruct; start: Uint64NoValStruct; suspended: number; system: { microseconds: number; seconds: number; }; total: { microseconds: number; seconds: number; }; user: { microseconds: number; seconds: number; }; };
  tres: { allocated: Tres[]; consumed: { average: Tres[]; max: Tres[]; min: Tres[]; total: Tres[]; }; requested: { average: Tres[]; max: Tres[]; min: Tres[]; total: Tres[]; }; };
}

export interface StepThatWaits {
  name: string;
  since_us: number;
  waits_for: string;
}

export interface StoryAnswer {
  job_id: number;
  lines: StoryLine[];
  errors: OwnError[];
  warnings: OwnWarning[];
}

export interface StoryLine {
  at_us: number;
  attempt: number;
  event: string;
  detail: string;
}

export interface Tres {
  count: number;
  id: number;
  name: string;
  type: string;
}

export interface Uint16NoValStruct {
  infinite: boolean;
  number: number;
  set: boolean;
}

export interface Uint32NoValStruct {
  infinite: boolean;
  number: number;
  set: boolean;
}

export interface Uint64NoValStruct {
  infinite: boolean;
  number: number;
  set: boolean;
}

export interface User {
  administrator_level: string[];
  associations: AssocShort[];
  coordinators: Coord[];
  default: { account: string; qos: number; wckey: string; };
  flags: string[];
  name: string;
  old_name: string;
  wckeys: Wckey[];
}

export interface UsersAnswer {
  errors: OpenapiError[];
  meta: OpenapiMeta;
  users: User[];
  warnings: OpenapiWarning[];
}

export interface Wckey {
  accounting: Accounting[];
  cluster: string;
  flags: string[];
  id: number;
  name: string;
  user: string;
}

export interface WckeyTagStruct {
  flags: string[];
  wckey: string;
}

export interface WhyAnswer {
  why: WhyJobReply & { sentence: string; };
  errors: OwnError[];
  warnings: OwnWarning[];
}

export interface WhyJobReply {
  job_id: number;
  shown_id: string;
  state: string;
  reason: string;
  user_name: string;
  last_event: string;
  last_event_at_us: number;
  now_us: number;
  obstacles: Obstacle[];
  planned: PlannedStart | null;
  needs: NodesNeeded[];
  licenses: LicensesNeeded[];
  reservations: ReservationInTheWay[];
  in_front: JobInFront[];
  in_front_more: number;
  may_preempt: boolean;
  victims: number[];
  hints: Hint[];
  name: string;
  steps: StepThatWaits[];
}

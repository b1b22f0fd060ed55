// Written by tools/webtypes.py from the OpenAPI documents of penstock restd; not to be edited.

export interface Account {
  associations: AssocShort[];
  coordinators: Coord[];
  description: string;
  flags: string[];
  name: string;
  organization: string;
}

export interface Accounting {
  TRES: Tres;
  allocated: { seconds: number; };
  id: number;
  id_alt: number;
  start: number;
}

export interface AccountsAnswer {
  accounts: Account[];
  errors: OpenapiError[];
  meta: OpenapiMeta;
  warnings: OpenapiWarning[];
}

export interface AcctGatherEnergy {
  average_watts: number;
  base_consumed_energy: number;
  consumed_energy: number;
  current_watts: Uint32NoValStruct;
  last_collected: number;
  previous_consumed_energy: number;
}

export interface Assoc {
  account: string;
  accounting: Accounting[];
  cluster: string;
  comment: string;
  default: { qos: string; };
  flags: string[];
  id: number;
  is_default: boolean;
  lineage: string;
  max: { jobs: { accruing: Uint32NoValStruct; active: Uint32NoValStruct; per: { accruing: Uint32NoValStruct; count: Uint32NoValStruct; submitted: Uint32NoValStruct; wall_clock: Uint32NoValStruct; }; total: Uint32NoValStruct; }; per: { account: { wall_clock: Uint32NoValStruct; }; }; tres: { group: { active: Tres[]; minutes: Tres[]; }; minutes: { per: { job: Tres[]; }; total: Tres[]; }; per: { job: Tres[]; node: Tres[]; }; total: Tres[]; }; };
  min: { priority_threshold: Uint32NoValStruct; };
  parent_account: string;
  partition: string;
  priority: Uint32NoValStruct;
  qos: string[];
  shares_raw: number;
  user: string;
}

export interface AssocSharesObjWrap {
  cluster: string;
  effective_usage: Float64NoValStruct;
  fairshare: { factor: Float64NoValStruct; level: Float64NoValStruct; };
  id: number;
  name: string;
  parent: string;
  partition: string;
  shares: Uint32NoValStruct;
  shares_normalized: Float64NoValStruct;
  tres: { group_minutes: SharesUint64Tres[]; run_seconds: SharesUint64Tres[]; usage: SharesFloat128Tres[]; };
  type: string[];
  usage: number;
  usage_normalized: Float64NoValStruct;
}

export interface AssocShort {
  account: string;
  cluster: string;
  id: number;
  partition: string;
  user: string;
}

export interface AssocsAnswer {
  associations: Assoc[];
  errors: OpenapiError[];
  meta: OpenapiMeta;
  warnings: OpenapiWarning[];
}

export interface AuditAnswer {
  records: AuditInfo[];
  errors: OwnError[];
  warnings: OwnWarning[];
}

export interface AuditInfo {
  id: number;
  record: string;
  hash: string;
}

export interface BfExitFields {
  bf_max_job_start: number;
  bf_max_job_test: number;
  bf_max_time: number;
  bf_node_space_size: number;
  end_job_queue: number;
  state_changed: number;
}

export interface BorrowingAnswer {
  rows: ({ account: string; parent: string; tres: string; guarantee: number; used: number; may_borrow: number; borrowed: number; idle: number; lenders: string[]; })[];
  errors: OwnError[];
  warnings: OwnWarning[];
}

export interface BudgetInfo {
  account: string;
  amount: string;
  unit: string;
  period: string;
  used: number;
  reserved: number;
  period_start_us: number;
  period_end_us: number;
  problem: string;
}

export interface BudgetsAnswer {
  budgets: BudgetInfo[];
  errors: OwnError[];
  warnings: OwnWarning[];
}

export interface CertificateInfo {
  role: string;
  name: string;
  end_at_us: number;
  warning: string;
}

export interface ConfigAnswer {
  at_us: number;
  lines: ConfigLine[];
  errors: OwnError[];
  warnings: OwnWarning[];
}

export interface ConfigDiffAnswer {
  differences: ConfigDifference[];
  problems: string[];
  jobs: string[];
  file_errors: string[];
  errors: OwnError[];
  warnings: OwnWarning[];
}

export interface ConfigDifference {
  what: string;
  names: string;
  key: string;
  running: string;
  file: string;
  needs_restart: boolean;
}

export interface ConfigLine {
  key: string;
  value: string;
  section: string;
}

export interface ControllerAnswer {
  certificates: CertificateInfo[];
  issued: number;
  database: DatabaseInfo;
  errors: OwnError[];
  warnings: OwnWarning[];
}

export interface ControllerPing {
  hostname: string;
  latency: number;
  primary: boolean;
  responding: boolean;
  status: string;
}

export interface Coord {
  direct: boolean;
  name: string;
}

export interface DatabaseInfo {
  kind: string;
  address: string;
  size_bytes: number;
  behind_us: number;
}

export interface DiagAnswer {
  errors: OpenapiError[];
  meta: OpenapiMeta;
  statistics: StatsMsg;
  warnings: OpenapiWarning[];
}

export interface EfficienciesAnswer {
  start_at_us: number;
  end_at_us: number;
  rows: ({ keys: string[]; jobs: number; cpu_used_s: number; cpu_allocated_s: number; cpu_percent: number | null; memory_used_mb_s: number; memory_allocated_mb_s: number; memory_percent: number | null; gpu_used_s: number; gpu_allocated_s: number; gpu_percent: number | null; })[];
  errors: OwnError[];
  warnings: OwnWarning[];
}

export interface EfficiencyAnswer {
  job_id: number;
  state: string;
  advice: string[];
  figures: { nodes: number | null; cores: number | null; elapsed_s: number | null; time_limit_s: number | null; time_percent: number | null; cpu_used_s: number | null; cpu_allocated_s: number | null; cpu_percent: number | null; memory_used_bytes: number | null; memory_allocated_bytes: number | null; memory_percent: number | null; gpus: number | null; gpu_percent: number | null; gpu_memory_used_bytes: number | null; gpu_memory_allocated_bytes: number | null; gpu_memory_percent: number | null; gpu_profiled_s: number | null; gpu_idle_s: number | null; gpu_throttled_s: number | null; energy_joules: number | null; };
  errors: OwnError[];
  warnings: OwnWarning[];
}

export interface EnvironmentAnswer {
  job_id: number;
  environment: string[];
  errors: OwnError[];
  warnings: OwnWarning[];
}

export interface EventInfo {
  node: string;
  start_at_us: number;
  end_at_us: number;
  state: string;
  reason: string;
  user: string;
  tres: string;
  event_type: string;
}

export interface FitsAnswer {
  fits: FitsReply;
  errors: OwnError[];
  warnings: OwnWarning[];
}

export interface FitsReply {
  now_us: number;
  partitions: PartitionFits[];
}

export interface FittingShape {
  kind: string;
  nodes: number;
  cpus: number;
  mem_mb: number;
  gres_name: string;
  gres: number;
  limit_s: number;
  node_list: string;
}

export interface Float64NoValStruct {
  infinite: boolean;
  number: number;
  set: boolean;
}

export interface ForecastAnswer {
  jobs: ({ job_id: number; shown_id: string; name: string; user_name: string; partition: string; priority: number; reason: string; start_at_us: number; node_list: string; time_limit_s: number; })[];
  total: number | null;
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
  idle_job_id: number;
  idle_since_us: number;
}

export interface GpuReadingInfo {
  node: string;
  uuid: string;
  index: number;
  at_us: number;
  utilization_percent: number | null;
  memory_used_mb: number | null;
  power_w: number | null;
  temperature_c: number | null;
  ecc_corrected: number | null;
  ecc_uncorrected: number | null;
}

export interface GpuReadingsAnswer {
  readings: GpuReadingInfo[];
  errors: OwnError[];
  warnings: OwnWarning[];
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

export interface JobCount {
  state: string;
  partition: string;
  reason: string;
  jobs: number;
  gpus: number;
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
  job_resources: JobRes | null;
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
  total: number | null;
  errors: OwnError[];
  warnings: OwnWarning[];
}

export interface JobsUseAnswer {
  jobs: ({ job_id: number; cpu_used_s: number | null; cpu_percent: number | null; memory_used_bytes: number | null; gpus: number; gpu_percent: number | null; gpu_memory_used_bytes: number | null; gpu_power_w: number | null; })[];
  errors: OwnError[];
  warnings: OwnWarning[];
}

export interface LicensesNeeded {
  name: string;
  wanted: number;
  free: number;
  enough_at_us: number;
}

export interface LintAnswer {
  findings: ({ line: number; column: number; severity: string; rule: string; text: string; fix: string; })[];
  lines_read: number;
  errors: OwnError[];
  warnings: OwnWarning[];
}

export interface MovedJob {
  job_id: number;
  shown_id: string;
  name: string;
  user_name: string;
  partition: string;
  change: string;
  before_at_us: number;
  before_node_list: string;
  after_at_us: number;
  after_node_list: string;
  time_limit_s: number;
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

export interface NodeEventsAnswer {
  events: EventInfo[];
  errors: OwnError[];
  warnings: OwnWarning[];
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

export interface OutputAnswer {
  job_id: number;
  state: string;
  step: string;
  stream: string;
  node: string;
  path: string;
  text: string;
  offset: number;
  next_offset: number;
  size: number;
  is_live: boolean;
  errors: OwnError[];
  warnings: OwnWarning[];
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

export interface PartitionFits {
  partition: string;
  state: string;
  nodes_up: number;
  shapes: FittingShape[];
}

export interface PartitionInfo {
  accounts: { allowed: string; deny: string; };
  alternate: string;
  cluster: string;
  cpus: { task_binding: string[]; total: number; };
  defaults: { job: string; partition_memory_per_cpu: Uint64NoValStruct; partition_memory_per_node: Uint64NoValStruct; time: Uint32NoValStruct; };
  flags: string[];
  grace_time: number;
  groups: { allowed: string; };
  maximums: { cpus_per_node: Uint32NoValStruct; cpus_per_socket: Uint32NoValStruct; nodes: Uint32NoValStruct; over_time_limit: Uint16NoValStruct; partition_memory_per_cpu: Uint64NoValStruct; partition_memory_per_node: Uint64NoValStruct; time: Uint32NoValStruct; };
  minimums: { nodes: number; };
  name: string;
  node_sets: string;
  nodes: { allowed_allocation: string; configured: string; total: number; };
  partition: { exclusive: string; oversubscribe: string; state: string[]; };
  preempt_mode: string[];
  priority: { job_factor: number; tier: number; };
  qos: { allowed: string; assigned: string; deny: string; };
  select_type: string[];
  suspend_time: Uint32NoValStruct;
  timeouts: { resume: Uint16NoValStruct; suspend: Uint16NoValStruct; };
  topology: string;
  tres: { billing_weights: string; configured: string; };
}

export interface PartitionsAnswer {
  errors: OpenapiError[];
  last_update: Uint64NoValStruct;
  meta: OpenapiMeta;
  partitions: PartitionInfo[];
  warnings: OpenapiWarning[];
}

export interface PastJobsAnswer {
  jobs: ({ job_id: number; shown_id: string; attempt: number; name: string; user_name: string; group_name: string; account: string; partition: string; qos: string; wckey: string; state: string; reason: string; exit_code: number; exit_signal: number; derived_exit_code: number; failed_node: string; submit_at_us: number; eligible_at_us: number; start_at_us: number; end_at_us: number; waited_s: number; elapsed_s: number; suspended_s: number; time_limit_s: number; priority: number; nodes: number; node_list: string; cpus: number; tres: string; tres_requested: string; steps: number; cpu_allocated_s: number; cpu_used_us: number | null; user_cpu_us: number | null; system_cpu_us: number | null; max_rss_kb: number | null; max_vmsize_kb: number | null; disk_read_bytes: number | null; disk_written_bytes: number | null; energy_joules: number | null; reservation: string; features: string; licenses: string; comment: string; admin_comment: string; system_comment: string; submit_line: string; work_dir: string; std_out: string; std_err: string; })[];
  total: number;
  errors: OwnError[];
  warnings: OwnWarning[];
}

export interface PingAnswer {
  errors: OpenapiError[];
  meta: OpenapiMeta;
  pings: ControllerPing[];
  warnings: OpenapiWarning[];
}

export interface PlanChangeReply {
  now_us: number;
  jobs: MovedJob[];
  more: number;
  unseen: number;
  compared: number;
  not_asked: number;
}

export interface PlanWithAnswer {
  start_at_us: number;
  node_list: string;
  partition: string;
  cpus: number;
  job_submit_user_msg: string;
  change: PlanChangeReply;
  errors: OwnError[];
  warnings: OwnWarning[];
}

export interface PlanWithoutAnswer {
  change: PlanChangeReply;
  errors: OwnError[];
  warnings: OwnWarning[];
}

export interface PlannedStart {
  start_at_us: number;
  node_list: string;
  partition: string;
  if_released: boolean;
}

export interface PolicyAnswer {
  policy: string;
  errors: OwnError[];
  warnings: OwnWarning[];
}

export interface PolicyAppliedAnswer {
  changes: number;
  errors: OwnError[];
  warnings: OwnWarning[];
}

export interface PolicyPlanAnswer {
  steps: ({ sign: string; what: string; changes: ({ name: string; before: string; after: string; })[]; })[];
  not_in_the_file: string[];
  fingerprint: string;
  refusal: string;
  errors: OwnError[];
  warnings: OwnWarning[];
}

export interface ProcessExitCodeVerbose {
  return_code: Uint32NoValStruct;
  signal: { id: Uint16NoValStruct; name: string; };
  status: string[];
}

export interface ProfileAnswer {
  job_id: number;
  profiles: ({ step: string; node: string; start_at_us: number; interval_s: number; lines: ({ kind: string; device: string; metrics: ({ name: string; mean: number; max: number; means: (number | null)[]; maxima: (number | null)[]; })[]; })[]; tasks: ({ rank: number; cpu_used_s: number | null; memory_max_bytes: number | null; read_bytes: number | null; written_bytes: number | null; })[]; })[];
  errors: OwnError[];
  warnings: OwnWarning[];
}

export interface Qos {
  description: string;
  flags: string[];
  id: number;
  limits: { factor: Float64NoValStruct; grace_time: number; max: { accruing: { per: { account: Uint32NoValStruct; user: Uint32NoValStruct; }; }; active_jobs: { accruing: Uint32NoValStruct; count: Uint32NoValStruct; }; jobs: { active_jobs: { per: { account: Uint32NoValStruct; user: Uint32NoValStruct; }; }; count: Uint32NoValStruct; per: { account: Uint32NoValStruct; user: Uint32NoValStruct; }; }; tres: { minutes: { per: { account: Tres[]; job: Tres[]; qos: Tres[]; user: Tres[]; }; total: Tres[]; }; per: { account: Tres[]; job: Tres[]; node: Tres[]; user: Tres[]; }; total: Tres[]; }; wall_clock: { per: { job: Uint32NoValStruct; qos: Uint32NoValStruct; }; }; }; min: { priority_threshold: Uint32NoValStruct; tres: { per: { job: Tres[]; }; }; }; };
  name: string;
  preempt: { exempt_time: Uint32NoValStruct; list: string[]; mode: string[]; };
  priority: Uint32NoValStruct;
  usage_factor: Float64NoValStruct;
  usage_threshold: Float64NoValStruct;
}

export interface QosAnswer {
  errors: OpenapiError[];
  meta: OpenapiMeta;
  qos: Qos[];
  warnings: OpenapiWarning[];
}

export interface QueueAnswer {
  queue: JobCount[];
  errors: OwnError[];
  warnings: OwnWarning[];
}

export interface RecordsAnswer {
  errors: OpenapiError[];
  jobs: Job[];
  meta: OpenapiMeta;
  warnings: OpenapiWarning[];
}

export interface ReportRow {
  keys: string[];
  tres: string;
  values: number[];
}

export interface ReservationCoreSpec {
  core: string;
  node: string;
}

export interface ReservationInTheWay {
  name: string;
  start_at_us: number;
  end_at_us: number;
  nodes: number;
}

export interface ReservationInfo {
  accounts: string;
  burst_buffer: string;
  core_count: number;
  core_specializations: ReservationCoreSpec[];
  end_time: Uint64NoValStruct;
  features: string;
  flags: string[];
  groups: string;
  licenses: string;
  max_start_delay: number;
  name: string;
  node_count: number;
  node_list: string;
  partition: string;
  purge_completed: { time: Uint32NoValStruct; };
  start_time: Uint64NoValStruct;
  tres: string;
  users: string;
}

export interface ReservationsAnswer {
  errors: OpenapiError[];
  last_update: Uint64NoValStruct;
  meta: OpenapiMeta;
  reservations: ReservationInfo[];
  warnings: OpenapiWarning[];
}

export interface ResourceNeeded {
  name: string;
  amount: number;
  nodes_free: number;
}

export interface ScheduleExitFields {
  default_queue_depth: number;
  end_job_queue: number;
  licenses: number;
  max_job_start: number;
  max_rpc_cnt: number;
  max_sched_time: number;
}

export interface ScriptAnswer {
  job_id: number;
  script: string;
  errors: OwnError[];
  warnings: OwnWarning[];
}

export interface SessionsAnswer {
  sessions: ({ job_id: number; kind: string; state: string; reason: string; partition: string; node: string; cpus: number; tres: string; submit_at_us: number; planned_start_at_us: number; start_at_us: number; end_at_us: number; time_limit_s: number; message: string; is_ready: boolean; idle_s: number; connections: number; })[];
  kinds: ({ kind: string; title: string; command: string[]; time_minutes: number; idle_minutes: number; is_terminal: boolean; strips_base: boolean; })[];
  errors: OwnError[];
  warnings: OwnWarning[];
}

export interface SharesAnswer {
  errors: OpenapiError[];
  meta: OpenapiMeta;
  shares: SharesRespMsg;
  warnings: OpenapiWarning[];
}

export interface SharesFloat128Tres {
  name: string;
  value: number;
}

export interface SharesRespMsg {
  shares: AssocSharesObjWrap[];
  total_shares: number;
}

export interface SharesUint64Tres {
  name: string;
  value: Uint64NoValStruct;
}

export interface SimulationAnswer {
  simulation_id: string;
  state: string;
  error: string;
  name: string;
  jobs: number;
  processors: number;
  interval_s: number;
  notes: string[];
  left_out: ({ reason: string; count: number; })[];
  doubts: ({ reason: string; count: number; })[];
  runs: ({ policy: string; engine: string; notes: string[]; figures: ({ name: string; value: number; })[]; lines: ({ name: string; mean: number; max: number; means: (number | null)[]; })[]; })[];
  waits: ({ account: string; jobs: number; mean_s_before: number | null; mean_s_after: number | null; median_s_before: number | null; median_s_after: number | null; p95_s_before: number | null; p95_s_after: number | null; refused_before: number | null; refused_after: number | null; waiting_before: number | null; waiting_after: number | null; })[];
  errors: OwnError[];
  warnings: OwnWarning[];
}

export interface SlurmStepId {
  job_id: Uint32NoValStruct;
  sluid: string;
  step_het_component: Uint32NoValStruct;
  step_id: string;
}

export interface StatsMsg {
  agent_count: number;
  agent_queue_size: number;
  agent_thread_count: number;
  bf_active: boolean;
  bf_backfilled_het_jobs: number;
  bf_backfilled_jobs: number;
  bf_cycle_counter: number;
  bf_cycle_last: number;
  bf_cycle_max: number;
  bf_cycle_mean: number;
  bf_cycle_sum: number;
  bf_depth_mean: number;
  bf_depth_mean_try: number;
  bf_depth_sum: number;
  bf_depth_try_sum: number;
  bf_exit: BfExitFields;
  bf_last_backfilled_jobs: number;
  bf_last_depth: number;
  bf_last_depth_try: number;
  bf_queue_len: number;
  bf_queue_len_mean: number;
  bf_queue_len_sum: number;
  bf_table_size: number;
  bf_table_size_mean: number;
  bf_table_size_sum: number;
  bf_when_last_cycle: Uint64NoValStruct;
  dbd_agent_queue_size: number;
  gettimeofday_latency: number;
  job_states_ts: Uint64NoValStruct;
  jobs_canceled: number;
  jobs_completed: number;
  jobs_failed: number;
  jobs_pending: number;
  jobs_running: number;
  jobs_started: number;
  jobs_submitted: number;
  pending_rpcs: StatsMsgRpcQueue[];
  pending_rpcs_by_hostlist: StatsMsgRpcDump[];
  req_time: Uint64NoValStruct;
  req_time_start: Uint64NoValStruct;
  rpcs_by_message_type: StatsMsgRpcType[];
  rpcs_by_user: StatsMsgRpcUser[];
  schedule_cycle_depth: number;
  schedule_cycle_last: number;
  schedule_cycle_max: number;
  schedule_cycle_mean: number;
  schedule_cycle_mean_depth: number;
  schedule_cycle_per_minute: number;
  schedule_cycle_sum: number;
  schedule_cycle_total: number;
  schedule_exit: ScheduleExitFields;
  schedule_queue_length: number;
  server_thread_count: number;
}

export interface StatsMsgRpcDump {
  count: string[];
  message_type: string;
  type_id: number;
}

export interface StatsMsgRpcQueue {
  count: number;
  message_type: string;
  type_id: number;
}

export interface StatsMsgRpcType {
  average_time: Uint64NoValStruct;
  count: number;
  cycle_last: number;
  cycle_max: number;
  dropped: number;
  message_type: string;
  queued: number;
  total_time: number;
  type_id: number;
}

export interface StatsMsgRpcUser {
  average_time: Uint64NoValStruct;
  count: number;
  total_time: number;
  user: string;
  user_id: number;
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

export interface StepsAnswer {
  job_id: number;
  steps: ({ step: string; name: string; state: string; start_at_us: number; end_at_us: number; exit_code: number; exit_signal: number; node_list: string; nodes: number; tasks: number; cpus: number; tres: string; cpu_used_us: number; max_rss_kb: number; user_cpu_us: number; system_cpu_us: number; max_vmsize_kb: number; disk_read_bytes: number; disk_written_bytes: number; figures: ({ name: string; total: number; max: number; max_node: string; max_task: number; min: number; min_node: string; min_task: number; })[]; task_ends: ({ node: string; ranks: string; kind: string; exit_code: number; exit_signal: number; })[]; task_ends_left_out: number; })[];
  errors: OwnError[];
  warnings: OwnWarning[];
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

export interface SwitchInfo {
  name: string;
  level: number;
  nodes: string;
  node_count: number;
  children: string;
}

export interface TemplatesAnswer {
  templates: ({ name: string; title: string; description: string; script: string; })[];
  errors: OwnError[];
  warnings: OwnWarning[];
}

export interface TestAnswer {
  start_at_us: number;
  node_list: string;
  partition: string;
  cpus: number;
  job_submit_user_msg: string;
  errors: OwnError[];
  warnings: OwnWarning[];
}

export interface TopologyAnswer {
  kind: string;
  switches: SwitchInfo[];
  errors: OwnError[];
  warnings: OwnWarning[];
}

export interface Tres {
  count: number;
  id: number;
  name: string;
  type: string;
}

export interface TresAnswer {
  TRES: Tres[];
  errors: OpenapiError[];
  meta: OpenapiMeta;
  warnings: OpenapiWarning[];
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

export interface UsageAnswer {
  start_at_us: number;
  end_at_us: number;
  rolled_up_to_us: number;
  rows: ReportRow[];
  errors: OwnError[];
  warnings: OwnWarning[];
}

export interface UsageHoursAnswer {
  start_at_us: number;
  end_at_us: number;
  rolled_up_to_us: number;
  groups: ({ key: string; total_s: number; hours: number[]; })[];
  errors: OwnError[];
  warnings: OwnWarning[];
}

export interface UsedLeaf {
  name: string;
  nodes: number;
  jobs: number[];
  jobs_more: number;
  is_owned: boolean;
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

export interface UtilizationAnswer {
  start_at_us: number;
  end_at_us: number;
  rolled_up_to_us: number;
  hours: ({ at_us: number; tres: string; allocated_s: number; down_s: number; planned_down_s: number; idle_s: number; planned_s: number; reported_s: number; over_s: number; count: number; })[];
  errors: OwnError[];
  warnings: OwnWarning[];
}

export interface WaitsAnswer {
  start_at_us: number;
  end_at_us: number;
  rows: ({ keys: string[]; jobs: number; mean_s: number; median_s: number; p95_s: number; longest_s: number; })[];
  errors: OwnError[];
  warnings: OwnWarning[];
}

export interface WasteAnswer {
  start_at_us: number;
  end_at_us: number;
  rows: ({ name: string; jobs: number; unused_gpu_s: number; allocated_gpu_s: number; worst_job: number; worst_unused_gpu_s: number; worst_command: string | null; })[];
  errors: OwnError[];
  warnings: OwnWarning[];
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
  leaves: UsedLeaf[];
}

export interface WideJobsAnswer {
  jobs: ({ job_id: number; shown_id: string; name: string; user_name: string; account: string; partition: string; qos: string; state: string; reason: string; priority: number; nodes: number; node_list: string; cpus: number; tres: string; submit_at_us: number; start_at_us: number; end_at_us: number; time_limit_s: number; planned_start_at_us: number; group_name: string; array_job_id: number; tasks: number; tres_requested: string; memory_mb: number; attempt: number; nice: number; eligible_at_us: number; suspended_us: number; preempt_at_us: number; exit_code: number; exit_signal: number; derived_exit_code: number; reason_detail: string; planned_node_list: string; batch_node: string; features: string; nodes_required: string; nodes_excluded: string; licenses: string; reservation: string; dependency: string; wckey: string; comment: string; admin_comment: string; command: string; work_dir: string; std_out: string; std_err: string; submit_host: string; })[];
  total: number | null;
  errors: OwnError[];
  warnings: OwnWarning[];
}

"""Parameters that Slurm has and Penstock does not use: for each what it does in Slurm, and why not and what instead here.

Data only: `keys.py` makes `Key`s of it, the reader warns with the last part, and `penstock config check` and
docs/configuration.md show all of it. A line is `Name=shown | in Slurm | here`; `shown` is what `scontrol show config`
prints where the file says nothing (`~` stands for a space, no `=`: `(null)`, `=-`: the line is left out). A value in
the file that is the shown default, or one of the words in `[...]` behind it, draws no warning: it asks for nothing.
"""

_SLURMDBD = (
    "accounting is part of the controller and always on; there is no slurmdbd (PenstockDatabaseUrl names its database)"
)
_POWER = "nodes are not switched on and off: one that is off shows as not responding, one in State=CLOUD waits until it registers"
_GATHER = "this is not measured; CPU, memory, disk and GPU use of tasks is"
_JOBCOMP = "every job is kept in the accounting tables (sacct); nothing is written elsewhere"
_PLUGIN = "Slurm's compiled plug-ins cannot be loaded"
_TLS = "connections between machines are always TLS, with the cluster's own certificate authority"
_AUTH = "users are known by the kernel's word on their machine, machines by certificates; munge is not used"
_LOG = "the log goes to the file that the daemon was told of, or to stderr, where systemd takes it"
_PID = "the daemons run in the foreground under systemd and write no pid file"
_TREE = "the controller speaks to each node over one stream that stays open; nothing is relayed"
_FREQ = "CPU frequencies are left as they are"
_WAITS = "there is no such wait"
_OLD = "Slurm itself has dropped it"

GLOBALS = f"""
AccountingStorageBackupHost | the second slurmdbd | {_SLURMDBD}
AccountingStorageExternalHost | slurmdbds of other sites | {_SLURMDBD}
AccountingStorageHost=localhost | where slurmdbd runs | {_SLURMDBD}
AccountingStorageLoc=- | the database or file | {_SLURMDBD}
AccountingStorageParameters | how slurmdbd is reached | {_SLURMDBD}
AccountingStoragePass=- | the password for slurmdbd | {_SLURMDBD}
AccountingStoragePort=6819 | slurmdbd's port | {_SLURMDBD}
AccountingStorageTRES=cpu,mem,energy,node,billing,fs/disk,vmem,pages | which kinds of resources are accounted | all kinds of GRES, by type too, are accounted whatever it says
AccountingStorageUser=- | the user for slurmdbd | {_SLURMDBD}
AccountingStoreFlags | what of a job is stored: comment, environment, script | all of these are stored, until MinJobAge has passed since its end
AccountingStoreJobComment=- | stores the comment of a job | comments are stored
AcctGatherEnergyType [acct_gather_energy/none] | measures energy | {_GATHER}
AcctGatherFilesystemType [acct_gather_filesystem/none] | measures a parallel file system | {_GATHER}
AcctGatherInterconnectType [acct_gather_interconnect/none] | measures the network | {_GATHER}
AcctGatherNodeFreq=0~sec | how often energy is measured | {_GATHER}
AcctGatherProfileType [acct_gather_profile/none] | time series of each task in HDF5 files | {_GATHER}
AllowSpecResourcesUsage=no [0] | lets jobs use cores that are set apart | no cores are set apart
AuthInfo | settings of munge | {_AUTH}
AuthType=auth/munge | how users and machines prove who they are | {_AUTH}
BackupAddr=- | the second controller's address | one controller runs; a crash loses nothing that was answered, and jobs run on meanwhile
BackupController=- | the second controller | one controller runs; a crash loses nothing that was answered, and jobs run on meanwhile
BatchStartTimeout=10~sec | how long a batch job may take to start before it is missed | the node reports each start and each failure by itself; PrologEpilogTimeout limits a Prolog
BcastExclude=/lib,/usr/lib,/lib64,/usr/lib64 | folders whose libraries sbcast leaves out | libraries are not sent along
BcastParameters | where and how sbcast writes | give sbcast its target and options
BurstBufferType [burst_buffer/none] | stages data in a burst buffer | there is none: jobs with --bb are refused
CacheGroups=- [0] | keeps group lists | {_OLD}; groups are looked up when needed
CertgenParameters | makes certificates | {_TLS}
CertgenType | makes certificates | {_TLS}
CertmgrParameters | renews certificates | {_TLS}
CertmgrType | renews certificates | {_TLS}
CheckpointType=- [checkpoint/none] | saves running jobs | {_OLD}
CliFilterParameters | settings of CLI filters | {_PLUGIN}
CliFilterPlugins | changes options in sbatch, salloc and srun | {_PLUGIN}; options are taken as they are given
CompleteWait=0~sec | lets new jobs wait while others end | {_WAITS}: a node that has given its resources back is free
CoreSpecPlugin=- [core_spec/none] | sets cores apart | {_OLD}
CpuFreqDef=Unknown | CPU frequency of jobs that do not say | {_FREQ}
CpuFreqGovernors=OnDemand,Performance,UserSpace | governors that jobs may choose | {_FREQ}
CredType=cred/munge | how job credentials are signed | {_AUTH}
CryptoType=- | how job credentials are signed | {_AUTH}
DataParserParameters | settings of --json and --yaml | they are Slurm's v0.0.43 with its defaults
DebugFlags | more lines about single subjects in the logs | there are no such subjects: SlurmctldDebug=debug writes all, and the flight recorder keeps every event (penstock ctld)
DefaultStorageHost=- | the database of older releases | {_SLURMDBD}
DefaultStorageLoc=- | the database of older releases | {_SLURMDBD}
DefaultStoragePass=- | the database of older releases | {_SLURMDBD}
DefaultStoragePort=- | the database of older releases | {_SLURMDBD}
DefaultStorageType=- | the database of older releases | {_SLURMDBD}
DefaultStorageUser=- | the database of older releases | {_SLURMDBD}
EioTimeout=60 | how long output may take behind the end of a step | srun ends when all output has come
EpilogMsgTime=2000~usec | spreads the messages at the end of big jobs | {_TREE}
EpilogTimeout=65534 [0] | the longest time of an Epilog | PrologEpilogTimeout holds for both
ExtSensorsFreq=- [0] | reads sensors | {_OLD}
ExtSensorsType=- [ext_sensors/none] | reads sensors | {_OLD}
FastSchedule=- | whose word on a node's size counts | {_OLD}: a node with less than its line says is drained; SlurmdParameters=config_overrides lets the line count
FederationParameters | several clusters as one | a command speaks to one cluster
GetEnvTimeout=2~sec | how long --get-user-env may take | it is limited to 10 s
GroupUpdateForce=1 [0] | when AllowGroups is looked up again | groups are looked up when a job is submitted
GroupUpdateTime=600~sec | how often AllowGroups is looked up | groups are looked up when a job is submitted
HashPlugin=hash/k12 | how messages are hashed | {_TLS}
HttpParserType | reads HTTP | there is no HTTP server
JobAcctGatherParams | how memory is counted, and whether it is limited | memory is counted as RSS and limited by control groups (ConstrainRAMSpace)
JobCheckpointDir=- | where saved jobs lie | {_OLD}
JobCompHost=localhost | where finished jobs are written | {_JOBCOMP}
JobCompLoc | where finished jobs are written | {_JOBCOMP}
JobCompParams | where finished jobs are written | {_JOBCOMP}
JobCompPass=- | where finished jobs are written | {_JOBCOMP}
JobCompPassScript=- | where finished jobs are written | {_JOBCOMP}
JobCompPort=0 | where finished jobs are written | {_JOBCOMP}
JobCompType [jobcomp/none] | writes a line about each finished job to a file or a service | {_JOBCOMP}
JobCompUser=root | where finished jobs are written | {_JOBCOMP}
JobCredentialPrivateKey=- | a key for credentials | {_AUTH}
JobCredentialPublicCertificate=- | a key for credentials | {_AUTH}
JobSubmitPlugins | changes or refuses jobs when they are submitted | {_PLUGIN}, nor job_submit.lua: jobs are taken as they are
KeepAliveTime=- | keep-alive of srun's connections | they are watched without it
LaunchType=- [launch/slurm] | how srun starts tasks | {_OLD}
MaxDBDMsgs=0 | how many messages wait for slurmdbd | {_SLURMDBD}
MaxJobId=67043328 | the number after which job ids begin again | a job id is never given twice
MaxNodeCount=0 | room for nodes that register by themselves | each node needs a NodeName line; a reload adds nodes at any time
MCSParameters | which users may share a node | PartitionName Exclusive=USER keeps users apart
MCSPlugin [mcs/none] | which users may share a node | PartitionName Exclusive=USER keeps users apart
MemLimitEnforce=- [no] | ends jobs that use more memory | memory is limited by control groups (ConstrainRAMSpace)
MessageTimeout=10~sec | how long a message may take | a command waits 10 s for the controller, and tries again while it restarts
MetricsType | figures for Prometheus | sdiag has them
NodeFeaturesPlugins [node_features/none] | features that a reboot changes | features are what the node's line says
PlugStackConfig | plugstack.conf, with SPANK plug-ins | {_PLUGIN}; what pyxis does is built in for --container-image and the like where srun has it
PluginDir | where plug-ins lie | {_PLUGIN}
PowerAction=- | what a reboot or a power action calls | {_POWER}
PowerParameters | limits the power of the cluster | power is not limited
PowerPlugin [power/none] | limits the power of the cluster | power is not limited
PrEpParameters | settings of Prolog and Epilog plug-ins | Prolog and Epilog are programs
PrEpPlugins=prep/script | what runs Prolog and Epilog | Prolog and Epilog are programs
PriorityParameters | settings of the priority plug-in | there are none
PrioritySiteFactorParameters | a factor of the site's own | {_PLUGIN}; scontrol update job ... priority= sets one
PrioritySiteFactorPlugin | a factor of the site's own | {_PLUGIN}; scontrol update job ... priority= sets one
PrologTimeout=65534 [0] | the longest time of a Prolog | PrologEpilogTimeout holds for both
PropagatePrioProcess=0 | tasks get the nice value of the submitting shell | they start with the node daemon's
ResumeFailProgram | called when a node does not come up | {_POWER}
ResumeProgram | switches nodes on | {_POWER}
ResumeRate=300~nodes/min [0] | how many nodes are switched on a minute | {_POWER}
ResvEpilog | runs when a reservation ends | reservations begin and end without programs
ResvProlog | runs when a reservation begins | reservations begin and end without programs
RoutePlugin [route/default] | how messages are relayed | {_TREE}
SallocDefaultCommand=- | what salloc runs | LaunchParameters=use_interactive_step and InteractiveStepOptions say it
SchedulerAuth=- | a key for an outside scheduler | {_OLD}
SchedulerPort=- | a port for an outside scheduler | {_OLD}
SchedulerRootFilter=- | hides partitions of root from the scheduler | {_OLD}
SlurmctldPidFile=/var/run/slurmctld.pid | where the controller's process id is written | {_PID}
SlurmctldPlugstack=- | plug-ins of the controller | {_PLUGIN}
SlurmctldPrimaryOffProg | runs when a controller hands over | one controller runs
SlurmctldPrimaryOnProg | runs when a controller takes over | one controller runs
SlurmctldSyslogDebug | what goes to syslog | {_LOG}
SlurmctldTimeout=120~sec | when a backup controller takes over | one controller runs; commands and nodes wait for it to come back
SlurmdPidFile=/var/run/slurmd.pid | where a node daemon's process id is written | {_PID}
SlurmdPlugstack=- | plug-ins of the node daemons | {_PLUGIN}
SlurmdSyslogDebug | what goes to syslog | {_LOG}
SlurmdUser=root(0) [root] | the user of the node daemons | it is whoever starts them: root for several users, any user for himself
SlurmSchedLogFile | a log of the scheduler alone | squeue, sprio and penstock why say what the scheduler thinks
SlurmSchedLogLevel=0 | a log of the scheduler alone | squeue, sprio and penstock why say what the scheduler thinks
SrunEpilog | runs behind each srun | TaskEpilog runs behind each task
SrunPortRange=0-0 | ports on which srun listens | srun opens no port: it connects to SlurmdPort of the nodes
SrunProlog | runs before each srun | TaskProlog runs before each task
SuspendExcNodes | nodes that are never switched off | {_POWER}
SuspendExcParts | partitions whose nodes are never switched off | {_POWER}
SuspendExcStates | states in which nodes are never switched off | {_POWER}
SuspendProgram | switches nodes off | {_POWER}
SuspendRate=60~nodes/min [0] | how many nodes are switched off a minute | {_POWER}
SuspendTime=INFINITE [-1] | after how much idle time a node is switched off | {_POWER}
SuspendTimeout=30~sec | how long switching off takes | {_POWER}
SwitchParameters | settings of the network | the network is left as it is
SwitchType [switch/none] | sets up the network for steps | the network is left as it is
TCPTimeout=2~sec | how long a connection may take | connections are tried again until the command's time is up
TLSParameters | certificates | {_TLS}
TLSType=tls/none | encrypts messages | {_TLS}
TmpFS=/tmp | the file system for temporary files | TMPDIR is /tmp where the job has none of its own, and TmpDisk of a node is not checked
TreeWidth=16 | how messages spread over nodes | {_TREE}
UrlParserType | reads URLs | there is no HTTP server
VSizeFactor=0~percent | limits virtual memory | real memory is limited by control groups (ConstrainRAMSpace)
X11Parameters | settings of X11 forwarding | X11 forwarding has none
"""

NODES = """
BcastAddr | an address for sbcast | files come over the node's one stream port
CoreSpecCount | cores for the system, not for jobs | all cores are for jobs: write smaller CPUs and CoresPerSocket
CpuBind | how tasks are bound on that node | TaskPluginParam and --cpu-bind say it
CpuSpecList | CPUs for the system, not for jobs | all CPUs are for jobs: write smaller CPUs and CoresPerSocket
MemSpecLimit | memory for the system, not for jobs | all of RealMemory is for jobs: write a smaller one
Parameters | settings of one node | SlurmdParameters holds for all
RestrictedCoresPerGPU | cores that only jobs with GPUs get | cores near GPUs are given last to jobs without, not kept
Topology | where the node is in topology.yaml | topology.conf says it
"""

PARTITIONS = f"""
CpuBind | how tasks are bound in that partition | TaskPluginParam and --cpu-bind say it
ExclusiveTopo | a job has its block of nodes alone | Exclusive=YES gives whole nodes
MaxCPUsPerSocket | CPUs of a socket that its jobs may use | MaxCPUsPerNode limits those of a node
PowerDownOnIdle | nodes are switched off as soon as they are idle | {_POWER}
ResumeTimeout | how long switching on takes | {_POWER}
SelectTypeParameters | whether cores or sockets are given | the cluster's SelectTypeParameters hold for all partitions
SuspendTime | after how much idle time a node is switched off | {_POWER}
SuspendTimeout | how long switching off takes | {_POWER}
Topology | which topology of topology.yaml is used | all partitions use the cluster's
"""

GRES = """
Ignore | a line that is not read | leave the line out
"""

CGROUP = """
AllowedDevicesFile | devices that every job may use | common devices are always there, others as jobs have GRES
AllowedKmemSpace | kernel memory of a job | it counts as memory of the job
CgroupAutomount [yes,no] | mounts control groups | they are mounted by the system
CgroupMountpoint [/sys/fs/cgroup] | where control groups are | they are found where the kernel says
CgroupReleaseAgentDir | programs that clean up | the node daemon cleans up
ConstrainKmemSpace [no] | limits kernel memory | it counts as memory of the job
EnableControllers [yes,no] | switches controllers on | they are switched on where they are needed
EnableExtraControllers | more controllers for other software | give them to the service in systemd (Delegate=)
IgnoreSystemd [yes,no] | makes groups without systemd | groups are made below the daemon's own
IgnoreSystemdOnFailure [yes,no] | makes groups without systemd | groups are made below the daemon's own
MaxKmemPercent | limits kernel memory | it counts as memory of the job
MemoryLimitEnforcement | limits memory | ConstrainRAMSpace does
MemoryLimitThreshold | limits memory | ConstrainRAMSpace does
MemorySwappiness | how early jobs swap | it is the system's
MinKmemSpace | limits kernel memory | it counts as memory of the job
SystemdTimeout | how long systemd may take | systemd is not asked
TaskAffinity [no] | binds tasks to CPUs | TaskPlugin=task/affinity does
"""

TOPOLOGY = """
LinkSpeed | speed of a link | Slurm does not use it either
"""

CONTAINER = """
AutoBasePath [true,yes] | makes BasePath where it is missing | it is always made
CloneNSEpilog | a program inside the new namespace | Epilog runs outside of it
CloneNSScript | a program inside the new namespace | Prolog runs outside of it
EntireStepInNS | the step's own daemon is inside, too | only tasks are
InitScript | a program that prepares the folders | Prolog can
NodeName | folders for single nodes | one BasePath holds for all
Shared [false,no] | lets mounts made later be seen inside | they are not
"""

FRONTENDS = """
FrontendName | a front-end node of a system without node daemons | Slurm has dropped such systems, too; each node runs a daemon
FrontendAddr | its address | front-end nodes are gone
AllowGroups | who may use it | front-end nodes are gone
AllowUsers | who may use it | front-end nodes are gone
DenyGroups | who may not use it | front-end nodes are gone
DenyUsers | who may not use it | front-end nodes are gone
Port | its port | front-end nodes are gone
Reason | why it is down | front-end nodes are gone
State | its state | front-end nodes are gone
"""

_DATABASE = "names a MariaDB of slurmdbd; Penstock keeps accounting in SQLite beside its state, or where PenstockDatabaseUrl says"
_KEPT = "scripts go with the jobs, and only administrators purge by hand"

SLURMDBD = f"""
AllResourcesAbsolute | how licences of several clusters are counted | licences are the cluster's
AllowNoDefAcct | users without a default account | such users are charged to PenstockDefaultAccount
ArchiveScript | writes old records to files | {_KEPT}
AuthAltParameters | how others than munge prove who they are | {_AUTH}
AuthAltTypes | how others than munge prove who they are | {_AUTH}
AuthInfo | settings of munge | {_AUTH}
AuthType | how daemons prove who they are | {_AUTH}
CommitDelay | when changes are written | they are written with what caused them
CommunicationParameters | how slurmdbd listens | {_SLURMDBD}
DbdAddr | where slurmdbd listens | {_SLURMDBD}
DbdBackupHost | the second slurmdbd | {_SLURMDBD}
DbdHost | where slurmdbd runs | {_SLURMDBD}
DbdPort | where slurmdbd listens | {_SLURMDBD}
DebugFlags | more lines in its log | {_SLURMDBD}
DebugLevel | how much it logs | SlurmctldDebug says it for the controller
DebugLevelSyslog | what goes to syslog | {_LOG}
DefaultQOS | the QOS of new associations | give users and accounts their QOS with sacctmgr
DisableArchiveCommands [no] | keeps sacctmgr archive from users | {_KEPT}
DisableCoordDBD [no] | takes coordinators their rights | coordinators have none beyond their own jobs yet
HashPlugin | how messages are hashed | {_TLS}
LogFile | its log | SlurmctldLogFile says it for the controller
LogTimeFormat | times in its log | LogTimeFormat in slurm.conf says it
MaxQueryTimeRange | how far back sacct may look | sacct may look at everything
MessageTimeout | how long a message may take | {_SLURMDBD}
Parameters | its settings | {_SLURMDBD}
PidFile | where its process id is written | {_PID}
PluginDir | where plug-ins lie | {_PLUGIN}
SlurmUser | the user of slurmdbd | it is the controller's, SlurmUser in slurm.conf
StorageBackupHost | the second database | {_DATABASE}
StorageHost | where the database runs | {_DATABASE}
StorageLoc | the database's name | {_DATABASE}
StorageParameters | how the database is reached | {_DATABASE}
StoragePass | the database's password | {_DATABASE}
StoragePassScript | the database's password | {_DATABASE}
StoragePort | the database's port | {_DATABASE}
StorageType | the kind of database | {_DATABASE}
StorageUser | the database's user | {_DATABASE}
TCPTimeout | how long a connection may take | {_SLURMDBD}
TLSParameters | certificates | {_TLS}
TLSType [tls/none] | encrypts messages | {_TLS}
TrackSlurmctldDown | counts the time without a controller as down | such times are not charged to anybody
"""

"""The parameters that Slurm has and Penstock does not use: the effect of each in Slurm, why it is not used, and the
alternative.

Data only: `keys.py` creates `Key`s from it, the reader warns with the last part, and `penstock config check` and
docs/configuration.md show all of it. A line is `Name=shown | in Slurm | here`; `shown` is what `scontrol show config`
prints if the key is not set (`~` stands for a space, no `=`: `(null)`, `=-`: the line is omitted). A value in the file
that equals the shown default, or one of the words in `[...]` after it, causes no warning.
"""

_SLURMDBD = (
    "accounting is part of the controller and always on; there is no slurmdbd (PenstockDatabaseUrl names its database)"
)
_POWER = "nodes are not powered on and off: one without power is shown as not responding, one with State=CLOUD waits until it registers"
_GATHER = "not measured; CPU, memory, disk and GPU use of tasks is, and the energy of GPUs"
_JOBCOMP = "for databases, which Penstock does not write completions to: every job is recorded in the accounting tables (sacct)"
_PLUGIN = "Slurm's compiled plug-ins cannot be loaded"
_TLS = "connections between machines are always TLS, with the cluster's own certificate authority"
_AUTH = "the kernel authenticates users on their machine, certificates authenticate machines; munge is not used"
_LOG = "the log goes to the configured file, or to stderr, which systemd collects"
_PID = "the daemons run in the foreground under systemd and write no pid file"
_TREE = "the controller has one open stream to each node; nothing is relayed"
_FREQ = "CPU frequencies are not changed"
_WAITS = "there is no such delay"
_OLD = "removed from Slurm itself"

GLOBALS = f"""
AccountingStorageBackupHost | the second slurmdbd | {_SLURMDBD}
AccountingStorageExternalHost | slurmdbds of other sites | {_SLURMDBD}
AccountingStorageHost=localhost | where slurmdbd runs | {_SLURMDBD}
AccountingStorageLoc=- | the database or file | {_SLURMDBD}
AccountingStorageParameters | how slurmdbd is reached | {_SLURMDBD}
AccountingStoragePass=- | the password for slurmdbd | {_SLURMDBD}
AccountingStoragePort=6819 | slurmdbd's port | {_SLURMDBD}
AccountingStorageTRES=cpu,mem,energy,node,billing,fs/disk,vmem,pages | which kinds of resources are accounted | all kinds of GRES, by type too, are always accounted
AccountingStorageUser=- | the user for slurmdbd | {_SLURMDBD}
AccountingStoreFlags | what of a job is stored: comment, environment, script | all of these are stored; scripts and environments can be read until MinJobAge after the end of the job
AccountingStoreJobComment=- | stores the comment of a job | comments are stored
AcctGatherEnergyType [acct_gather_energy/none] | measures energy | {_GATHER}
AcctGatherFilesystemType [acct_gather_filesystem/none] | measures a parallel file system | {_GATHER}
AcctGatherInterconnectType [acct_gather_interconnect/none] | measures the network | {_GATHER}
AcctGatherNodeFreq=0~sec | how often energy is measured | {_GATHER}
AuthInfo | settings of munge | {_AUTH}
AuthType=auth/munge | authentication of users and machines | {_AUTH}
BackupAddr=- | the second controller's address | one controller runs; a crash loses nothing that was acknowledged, and jobs continue meanwhile
BackupController=- | the second controller | one controller runs; a crash loses nothing that was acknowledged, and jobs continue meanwhile
BatchStartTimeout=10~sec | time limit for the start of a batch job | nodes report each start and failure by themselves; PrologEpilogTimeout limits a Prolog
BcastExclude=/lib,/usr/lib,/lib64,/usr/lib64 | folders whose libraries sbcast leaves out | libraries are not copied
BcastParameters | where and how sbcast writes | options of sbcast set it
BurstBufferType [burst_buffer/none] | stages data in a burst buffer | there are no burst buffers: jobs with --bb are refused
CacheGroups=- [0] | keeps group lists | {_OLD}; groups are looked up when needed
CertgenParameters | makes certificates | {_TLS}
CertgenType | makes certificates | {_TLS}
CertmgrParameters | renews certificates | {_TLS}
CertmgrType | renews certificates | {_TLS}
CheckpointType=- [checkpoint/none] | saves running jobs | {_OLD}
CliFilterParameters | settings of filters of options | cli_filter.lua lies beside slurm.conf
CompleteWait=0~sec | delays new jobs while others are completing | {_WAITS}: a node is free as soon as its resources are released
CoreSpecPlugin=- [core_spec/none] | reserves cores for the system | {_OLD}
CpuFreqDef=Unknown | default CPU frequency of jobs | {_FREQ}
CpuFreqGovernors=OnDemand,Performance,UserSpace | governors that jobs may choose | {_FREQ}
CredType=cred/munge | how job credentials are signed | {_AUTH}
CryptoType=- | how job credentials are signed | {_AUTH}
DataParserParameters | settings of --json and --yaml | they are Slurm's v0.0.43 with its defaults
DefaultStorageHost=- | the database of older releases | {_SLURMDBD}
DefaultStorageLoc=- | the database of older releases | {_SLURMDBD}
DefaultStoragePass=- | the database of older releases | {_SLURMDBD}
DefaultStoragePort=- | the database of older releases | {_SLURMDBD}
DefaultStorageType=- | the database of older releases | {_SLURMDBD}
DefaultStorageUser=- | the database of older releases | {_SLURMDBD}
EioTimeout=60 | how long srun waits for output after the end of a step | srun ends when all output has arrived
EpilogMsgTime=2000~usec | spreads the messages at the end of big jobs | {_TREE}
EpilogTimeout=65534 [0] | time limit of Epilog | PrologEpilogTimeout applies to both
ExtSensorsFreq=- [0] | reads sensors | {_OLD}
ExtSensorsType=- [ext_sensors/none] | reads sensors | {_OLD}
FastSchedule=- | whether a node's configured or detected size counts | {_OLD}: a node with less than configured is drained; with SlurmdParameters=config_overrides the configured size counts
FederationParameters | several clusters as one | there are no federations
GetEnvTimeout=2~sec | how long --get-user-env may take | it is limited to 10 s
GroupUpdateForce=1 [0] | when AllowGroups is looked up again | groups are looked up when a job is submitted
GroupUpdateTime=600~sec | how often AllowGroups is looked up | groups are looked up when a job is submitted
HashPlugin=hash/k12 | how messages are hashed | {_TLS}
HttpParserType | reads HTTP | penstock restd and the metrics have HTTP parsers of their own
JobAcctGatherParams | how memory is counted, and whether it is limited | memory is counted as RSS and limited by control groups (ConstrainRAMSpace)
JobCheckpointDir=- | folder of saved jobs | {_OLD}
JobCompHost=localhost | where finished jobs are written | {_JOBCOMP}
JobCompPass=- | where finished jobs are written | {_JOBCOMP}
JobCompPassScript=- | where finished jobs are written | {_JOBCOMP}
JobCompPort=0 | where finished jobs are written | {_JOBCOMP}
JobCompUser=root | where finished jobs are written | {_JOBCOMP}
JobCredentialPrivateKey=- | a key for credentials | {_AUTH}
JobCredentialPublicCertificate=- | a key for credentials | {_AUTH}
KeepAliveTime=- | keep-alive of srun's connections | not needed to detect lost connections
LaunchType=- [launch/slurm] | how srun starts tasks | {_OLD}
MaxDBDMsgs=0 | how many messages wait for slurmdbd | {_SLURMDBD}
MaxJobId=67043328 | the number after which job ids start again | job ids are never reused
MaxNodeCount=0 | room for nodes that register by themselves | each node needs a NodeName line; a reload adds nodes at any time
MemLimitEnforce=- [no] | ends jobs that use more memory | memory is limited by control groups (ConstrainRAMSpace)
MessageTimeout=10~sec | how long a message may take | a command waits 10 s for the controller, and retries while it restarts; of a long listing each part
MetricsAuthUsers | users whose tokens may read metrics | PenstockMetricsTokenFile names a file with a token, PenstockMetricsAllow addresses
NodeFeaturesPlugins [node_features/none] | features that a reboot changes | features are those of the node's line
PlugStackConfig | plugstack.conf, with SPANK plug-ins | {_PLUGIN}; options of such plug-ins (--container-image, ...) are refused
PluginDir | where plug-ins lie | {_PLUGIN}
PowerAction=- | program of a reboot or a power action | {_POWER}
PowerParameters | limits the power of the cluster | power is not limited
PowerPlugin [power/none] | limits the power of the cluster | power is not limited
PrEpParameters | settings of Prolog and Epilog plug-ins | Prolog and Epilog are programs
PrEpPlugins=prep/script | what runs Prolog and Epilog | Prolog and Epilog are programs
PriorityParameters | settings of the priority plug-in | there are none
PrioritySiteFactorParameters | a priority factor of the site | {_PLUGIN}; scontrol update job ... sitefactor= sets one
PrioritySiteFactorPlugin | a priority factor of the site | {_PLUGIN}; scontrol update job ... sitefactor= sets one
PrologTimeout=65534 [0] | time limit of Prolog | PrologEpilogTimeout applies to both
PropagatePrioProcess=0 | tasks get the nice value of the submitting shell | they start with the node daemon's
ResumeFailProgram | called when a node does not come up | {_POWER}
ResumeProgram | switches nodes on | {_POWER}
ResumeRate=300~nodes/min [0] | how many nodes are switched on a minute | {_POWER}
ResvEpilog | runs when a reservation ends | reservations run no programs
ResvProlog | runs when a reservation starts | reservations run no programs
RoutePlugin [route/default] | how messages are relayed | {_TREE}
SallocDefaultCommand=- | what salloc runs | LaunchParameters=use_interactive_step and InteractiveStepOptions determine it
SchedulerAuth=- | a key for an outside scheduler | {_OLD}
SchedulerPort=- | a port for an outside scheduler | {_OLD}
SchedulerRootFilter=- | hides partitions of root from the scheduler | {_OLD}
SlurmctldPidFile=/var/run/slurmctld.pid | where the controller's process id is written | {_PID}
SlurmctldPlugstack=- | plug-ins of the controller | {_PLUGIN}
SlurmctldPrimaryOffProg | runs when a controller hands over | one controller runs
SlurmctldPrimaryOnProg | runs when a controller takes over | one controller runs
SlurmctldSyslogDebug | what goes to syslog | {_LOG}
SlurmctldTimeout=120~sec | when a backup controller takes over | one controller runs; commands and nodes wait for its restart
SlurmdPidFile=/var/run/slurmd.pid | where a node daemon's process id is written | {_PID}
SlurmdPlugstack=- | plug-ins of the node daemons | {_PLUGIN}
SlurmdSyslogDebug | what goes to syslog | {_LOG}
SlurmdUser=root(0) [root] | the user of the node daemons | the daemons run as the user who starts them: root for several users, any user for their own jobs
SlurmSchedLogFile | a log of the scheduler alone | squeue, sprio and penstock why explain scheduling
SlurmSchedLogLevel=0 | a log of the scheduler alone | squeue, sprio and penstock why explain scheduling
SrunEpilog | runs after each srun | srun --epilog names one; TaskEpilog runs after each task
SrunPortRange=0-0 | ports on which srun listens | srun opens no port: it connects to SlurmdPort of the nodes
SrunProlog | runs before each srun | srun --prolog names one; TaskProlog runs before each task
SuspendExcNodes | nodes that are never switched off | {_POWER}
SuspendExcParts | partitions whose nodes are never switched off | {_POWER}
SuspendExcStates | states in which nodes are never switched off | {_POWER}
SuspendProgram | switches nodes off | {_POWER}
SuspendRate=60~nodes/min [0] | how many nodes are switched off a minute | {_POWER}
SuspendTime=INFINITE [-1] | idle time after which a node is switched off | {_POWER}
SuspendTimeout=30~sec | time that powering off takes | {_POWER}
SwitchParameters | settings of the network | networks are not configured
SwitchType [switch/none] | sets up the network for steps | networks are not configured
TCPTimeout=2~sec | how long a connection may take | connections are retried until the command's time limit
TLSParameters | certificates | {_TLS}
TLSType=tls/none | encrypts messages | {_TLS}
TmpFS=/tmp | the file system for temporary files | TMPDIR is /tmp unless the job sets it; TmpDisk of a node is not compared with its disk
TreeWidth=16 | how messages spread over nodes | {_TREE}
UrlParserType | reads URLs | penstock restd and the metrics have HTTP parsers of their own
VSizeFactor=0~percent | limits virtual memory | real memory is limited by control groups (ConstrainRAMSpace)
X11Parameters | settings of X11 forwarding | X11 is not forwarded
"""

NODES = """
BcastAddr | an address for sbcast | files come over the node's one stream port
CpuBind | how tasks are bound on that node | --cpu-bind sets it for a step
Parameters | settings of one node | SlurmdParameters applies to all nodes
RestrictedCoresPerGPU | cores that only jobs with GPUs get | jobs without GPUs get cores near GPUs last; none are reserved
Topology | its position in topology.yaml | topology.conf or topology.yaml gives it
"""

PARTITIONS = f"""
CpuBind | how tasks are bound in that partition | --cpu-bind sets it for a step
PowerDownOnIdle | nodes are switched off as soon as they are idle | {_POWER}
ResumeTimeout | time that powering on takes | {_POWER}
SelectTypeParameters | whether cores or sockets are given | the cluster's SelectTypeParameters apply to all partitions
SuspendTime | idle time after which a node is switched off | {_POWER}
SuspendTimeout | time that powering off takes | {_POWER}
Topology | which topology of topology.yaml is used | all partitions use the cluster's
"""

GRES = """
Ignore | a line that is not read | leave the line out
"""

CGROUP = """
AllowedDevicesFile | devices that every job may use | all devices except those of GRES
AllowedKmemSpace | kernel memory of a job | it counts as memory of the job
CgroupAutomount [yes,no] | mounts control groups | the system mounts them
CgroupMountpoint [/sys/fs/cgroup] | where control groups are | found from the kernel
CgroupReleaseAgentDir | programs that clean up | the node daemon cleans up
ConstrainKmemSpace [no] | limits kernel memory | it counts as memory of the job
EnableControllers [yes,no] | switches controllers on | enabled where they are needed
EnableExtraControllers | more controllers for other software | give them to the service in systemd (Delegate=)
IgnoreSystemd [yes,no] | makes groups without systemd | groups are made below the daemon's own
IgnoreSystemdOnFailure [yes,no] | makes groups without systemd | groups are made below the daemon's own
MaxKmemPercent | limits kernel memory | it counts as memory of the job
MemoryLimitEnforcement | limits memory | ConstrainRAMSpace limits it
MemoryLimitThreshold | limits memory | ConstrainRAMSpace limits it
MemorySwappiness | how early jobs swap | the system's setting applies
MinKmemSpace | limits kernel memory | it counts as memory of the job
SystemdTimeout | how long systemd may take | systemd is not called
TaskAffinity [no] | binds tasks to CPUs | TaskPlugin=task/affinity binds them
"""

TOPOLOGY = """
LinkSpeed | speed of a link | Slurm does not use it either
"""

CONTAINER = """
AutoBasePath [true,yes] | makes BasePath where it is missing | it is always made
CloneNSEpilog | a program inside the new namespace | Epilog runs outside of it
CloneNSScript | a program inside the new namespace | Prolog runs outside of it
EntireStepInNS | the step's daemon is inside, too | only tasks are inside
InitScript | a program that prepares the folders | Prolog can
NodeName | folders for single nodes | one BasePath applies to all nodes
Shared [false,no] | propagates later mounts into the namespace | they are not propagated
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

_DATABASE = "names a MariaDB of slurmdbd; Penstock keeps accounting in SQLite beside its state, or in the database of PenstockDatabaseUrl"
_KEPT = "there is no archive script, and only administrators purge by hand"

SLURMDBD = f"""
AllResourcesAbsolute | how licenses of several clusters are counted | licenses belong to one cluster
AllowNoDefAcct | users without a default account | such users are charged to PenstockDefaultAccount
ArchiveScript | writes old records to files | {_KEPT}
AuthAltParameters | authentication other than munge | {_AUTH}
AuthAltTypes | authentication other than munge | {_AUTH}
AuthInfo | settings of munge | {_AUTH}
AuthType | authentication of daemons | {_AUTH}
CommitDelay | when changes are written | changes are committed with their cause
CommunicationParameters | how slurmdbd listens | {_SLURMDBD}
DbdAddr | where slurmdbd listens | {_SLURMDBD}
DbdBackupHost | the second slurmdbd | {_SLURMDBD}
DbdHost | where slurmdbd runs | {_SLURMDBD}
DbdPort | where slurmdbd listens | {_SLURMDBD}
DebugFlags | more lines in its log | {_SLURMDBD}
DebugLevel | how much it logs | SlurmctldDebug sets it for the controller
DebugLevelSyslog | what goes to syslog | {_LOG}
DefaultQOS | the QOS of new associations | give users and accounts their QOS with sacctmgr
DisableArchiveCommands [no] | keeps sacctmgr archive from users | {_KEPT}
DisableCoordDBD [no] | takes away the rights of coordinators | coordinators keep their rights
HashPlugin | how messages are hashed | {_TLS}
LogFile | its log | SlurmctldLogFile sets it for the controller
LogTimeFormat | times in its log | LogTimeFormat in slurm.conf sets it
MaxQueryTimeRange | the longest period that sacct may query | sacct has no limit
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
TrackSlurmctldDown | counts the time without a controller as down | such times always count as down
"""

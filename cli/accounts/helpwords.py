"""The end of `sacctmgr --help`: commands, entities, and the keys of each pair of them."""

COMMANDS = """\
  Without a command sacctmgr reads lines from the input, until exit, quit or its end.

  Valid <COMMAND> values are:
     add <ENTITY> <SPECS>     add entities (also: create)
     archive <DUMP/LOAD> <SPECS>
                              write old records to files and remove them, or read such files
     associations             show or list entities with their associations
     clear stats              reset the server's statistics
     delete <ENTITY> <SPECS>  remove entities (also: remove)
     dump <CLUSTER> [File=<FILENAME>]
                              write accounts, users and limits to a file
     exit                     end sacctmgr
     help                     print this text
     list <ENTITY> [<SPECS>]  print entities, by default all (also: show)
     load <FILE> [<SPECS>]    make accounts and users what the file says; Clean removes all others first
     modify <ENTITY> <SPECS>  change entities: where CONDITIONS set VALUES (also: update)
     oneliner                 one record on each line
     parsable                 output delimited with |, also at the end
     parsable2                output delimited with |, not at the end
     ping                     print the status of the server
     quiet                    print errors only
     quit                     end sacctmgr
     readonly                 refuse changes
     reconfigure              read the server's configuration again
     shutdown                 stop the server
     verbose                  print more messages
     version                  display tool version number
     !!                       repeat the last line

  <ENTITY> may be "account", "association", "cluster", "configuration",
                  "coordinator", "event", "federation", "instance", "job",
                  "problem", "qos", "resource", "reservation",
                  "runawayjobs", "stats", "transaction", "tres", "user" or
                  "wckey"

  <SPECS> are different for each command entity pair.
       list account       - Clusters=, DefaultQOS=, Descriptions=, Format=, Names=, Organizations=,
                            Parents=, QosLevel=, Users=, WithAssoc, WithCoordinators, WithDeleted,
                            WithRawQOSLevel, WOPInfo and WOPLimits
       add account        - Names=, Clusters=, Description=, Organization=, Parent= and LIMITS
       modify account     - (set) Description=, Organization=, Parent=, RawUsage= and LIMITS
                            (where) as list account
       delete account     - as list account

       list associations  - Accounts=, Clusters=, DefaultQOS=, Format=, Ids=, OnlyDefaults, Parents=,
                            Partitions=, QosLevel=, Tree, Users=, WithDeleted, WithRawQOSLevel,
                            WithSubAccounts, WithUsage, WOLimits, WOPInfo and WOPLimits

       list cluster       - Classification=, DefaultQOS=, Federations=, Flags=, Format=, Names=,
                            RPCVersions=, WithDeleted, WithFed and WOLimits
       add cluster        - Names= and LIMITS
       modify cluster     - (set) LIMITS (where) Names=
       delete cluster     - Names=

       add coordinator    - Accounts= and Names=
       delete coordinator - Accounts= and Names=

       list events        - All_Clusters, All_Time, Clusters=, CondFlags=, End=, Events=, Format=,
                            MaxCPUs=, MinCPUs=, Nodes=, Reasons=, Start=, States= and Users=

       modify job         - (set) AdminComment=, Comment=, DerivedExitCode=, Extra=, NewWCKey=,
                            SystemComment=
                            (where) Clusters=, EndTime=, JobID=, Partitions=, StartTime=, Users=,
                            WCKeys=

       list qos           - Descriptions=, Format=, Ids=, Names=, PreemptMode= and WithDeleted
       add qos            - Names=, Description=, Flags=, GraceTime=, LimitFactor=, Preempt=,
                            PreemptExemptTime=, PreemptMode=, UsageFactor=, UsageThreshold=,
                            MaxJobsPerAccount=, MaxJobsPerUser=, MaxSubmitJobsPerAccount=,
                            MaxSubmitJobsPerUser=, MaxTRESPerAccount=, MaxTRESPerUser=,
                            MaxTRESRunMinsPerAccount=, MaxTRESRunMinsPerUser=, MinTRESPerJob= and
                            the LIMITS of groups and jobs
       modify qos         - (set) RawUsage= and as add qos (where) as list qos
       delete qos         - as list qos

       list resource      - Clusters=, Descriptions=, Flags=, Format=, Ids=, Names=,
                            PercentAllowed=, Servers=, ServerType=, WithClusters and WithDeleted
       add resource       - Names=, Allowed=, Clusters=, Count=, Descriptions=, Flags=,
                            LastConsumed=, Servers=, ServerType= and Type=
       modify resource    - (set) as add resource (where) Clusters=, Names=, Servers=
       delete resource    - Clusters=, Names=, Servers=

       list reservation   - Clusters=, End=, Format=, Ids=, Names=, Nodes= and Start=

       list runawayjobs   - Clusters= and Format=

       clear stats
       list stats

       list transactions  - Accounts=, Action=, Actors=, Clusters=, End=, Format=, Ids=, Start=,
                            Users= and WithAssoc

       list tres          - Format=, Ids=, Names=, Type= and WithDeleted

       list user          - AdminLevel=, DefaultAccount=, DefaultQOS=, DefaultWCKey=, Format=,
                            Names=, QosLevel=, WithAssoc, WithCoordinators, WithDeleted,
                            WithRawQOSLevel, WOPInfo and WOPLimits
       add user           - Names=, Accounts=, AdminLevel=, Clusters=, DefaultAccount=,
                            DefaultWCKey=, Partitions= and LIMITS
       modify user        - (set) AdminLevel=, DefaultAccount=, DefaultWCKey=, NewName=, RawUsage=
                            and LIMITS
                            (where) Accounts=, AdminLevel=, Clusters=, DefaultAccount=, Names=,
                            Partitions=, QosLevel= and WCKeys=
       delete user        - Accounts=, AdminLevel=, Clusters=, DefaultAccount=, DefaultWCKey=, Names=

       list wckey         - Clusters=, End=, Format=, Ids=, Names=, Start=, Users= and WithDeleted

       archive dump       - Directory=, Events, Jobs, Reservations, Steps, Suspend, TXN, Usage,
                            PurgeEventAfter=, PurgeJobAfter=, PurgeResvAfter=, PurgeStepAfter=,
                            PurgeSuspendAfter=, PurgeTXNAfter=, PurgeUsageAfter= and Script=
       archive load       - File= or Insert=

  LIMITS are DefaultQOS=, Fairshare=, GrpJobs=, GrpJobsAccrue=, GrpSubmitJobs=, GrpTRES=,
       GrpTRESMins=, GrpTRESRunMins=, GrpWall=, MaxJobs=, MaxJobsAccrue=, MaxSubmitJobs=,
       MaxTRESMinsPerJob=, MaxTRESPerJob=, MaxTRESPerNode=, MaxWallDurationPerJob=,
       MinPrioThreshold=, Priority= and QosLevel=

  Format=FIELD[%WIDTH],... selects the columns of a list.

  Keys may be abbreviated. Names of commands, entities and keys are case-insensitive."""

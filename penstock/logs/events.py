"""The names of what daemons log: the table that turns a message's text into an event and the names of its arguments.

A call of the log looks as ever, `log.info("node %s registered, stream %d", node, stream)`; its text is the key, as in a
catalogue of translations, so a text may be reworded here and there without a change of its event's name. A text that says
nothing by itself (`"%s"`) is named where it is logged: `extra={"event": NAME}`, by a name of `NAMED`. Rules:

- A name stands for one thing and stays: filters and alerts of a site use it.
- The arguments' names are in the order of the arguments; `-` is one that only the message has. `step` and `job` give the job.
- The events of jobs are `job_` and the word of the job's history: `job_event`.

A tidy test compares the table with the calls in the code, and with docs/logs.md, which tools/logevents.py writes.
"""

from typing import Final, NamedTuple

#: The event of a line that is not ours: a library's.
OTHER: Final = "other"
#: Names that a line has by itself, which no argument has.
RESERVED: Final = ("time", "level", "daemon", "event", "message", "exception", "logger", "trace_id", "span_id")


class LogEvent(NamedTuple):
    """The name of an event, and of its arguments in their order; "-" = only the message has it."""

    name: str
    fields: tuple[str, ...] = ()


#: Of what daemons share: event | names of the arguments | text.
_SHARED: Final = """\
caller_unknown | | auth: a caller without a uid in this namespace was refused
caller_gone | uid reason | auth: uid %d went away: %s
callers_not_accepted | reason | auth: cannot accept callers: %s
metrics_listening | - host port | metrics: http%s://%s:%d/metrics
metrics_connection_ended | | a connection for metrics ends: its client is gone, too slow or no client of this protocol
metrics_connection_ended | | a connection for metrics was closed for another
metrics_failed | path error | %s cannot be answered: %r
log_changed | path form setting | the log: %s, form %s, level %s
messages_dropped | count | %d messages were dropped here: the log could not be written
log_not_opened | path reason | log file %s: %s; the log stays where it is
"""

#: Of the controller.
_CTLD: Final = """\
started | cluster epoch jobs nodes address - - | cluster %s: epoch %d, %d jobs, %d nodes; listening on %s and %s:%d
stopping | reason | stopping: %s
stopped | | stopped
config_read | | the configuration was read again
not_registered | reason | other clusters judge by the previous configuration until it is read again: %s
filters_not_named | reason | commands keep their filters of options until the configuration is read again: %s
amendment_dropped | path reason | a change that was made at run time no longer fits %s: %s
loss_accepted | epoch | a loss of the database's end is accepted: epoch %d; nothing starts before all nodes are here
ca_made | path | a new certificate authority was made in %s
last_commit_hangs | | the last commit does not end; nothing in it was acknowledged
fatal | what reason | %s: %s
witness_damaged | path | %s: the witness of acknowledged changes is damaged, and is replaced: \
whether the database has lost its end before this start is not known; check the disk
witness_missing | path | %s: no witness file of acknowledged changes exists, and a new one is created: \
whether the database has lost its end before this start is not known
witness_replaced | path | the witness %s was removed or replaced while it is in use: it is written again
witness_not_written | path reason | the witness %s cannot be written: %s; a loss of the database's end would not be noticed
node_registered | node stream | node %s registered, stream %d
node_registration_refused | node reason | node %s: registration refused: %s
node_stream_ended | node stream reason | node %s: stream %d ends: %s
node_command_not_sent | node command reason | node %s: %s is not sent: %s
node_command_refused | node command reason | node %s refused %s: %s
debug_flag | flag what | DebugFlags=%s: %s
debug_flag | flag job what | DebugFlags=%s: job %d: %s
node_clock_off | node offset - | node %s: its clock is %s this machine's: %s (time synchronisation)
node_clock_right | node | node %s: its clock is right again
clocks_differ | offset | most nodes' clocks are %s this machine's: set it, or theirs (time synchronisation)
clocks_agree | | the clocks of most nodes and of this machine agree again
node_fencing | node program | node %s: fencing it with %s
node_fenced | node outcome | node %s: %s
clock_set_forward | jump_s | the clock was set forward by %.1f s
request_failed | what error | %s was refused for an error of ours; nothing was changed: %r
request_failed | method error | %s failed, and was refused: %r
call_failed | uid | calls: a call of uid %d has failed outside of the gate
job_not_shown | job error | job %d cannot be shown whole: %r
forecast_not_shown | count | the expected starts of %d jobs cannot be shown
planner_failed | | the planner failed; its pass starts nothing
event_left_out | what | %s is left out: an earlier process has ended over one like it
fatal_cause | what error - job | an earlier process ended in %s: %s (%s, job %d)
fatal_causes_not_read | path reason | %s is not read: %s
fatal_causes_not_written | path reason | %s cannot be written: %s
call_denied | method caller from calls reason | denied method=%s caller=%s from=%s calls=%d: %s
caller_unknown | | calls: a caller without a uid in this namespace was refused
rate_limited | uid user | RPC rate limit exceeded by uid %d (%s): its requests wait
connection_closed | uid reason | calls: a connection of uid %d is closed: %s
connections_too_many | peer door | %s has too many connections for %s: the newest are closed
connections_not_checked | reason | connections cannot be checked: %s
database_away | reason | the database does not answer: %s; changes wait until it does
database_away | waited_s | the database's server has not answered for %.0f s; the connection is closed
database_full | reason | the database has no room: %s; changes are refused until it has
database_back | | the database takes writes again
database_slow | waited_s | the database has not completed a write for %.0f s; changes wait
database_back | waited_s | the database completes writes again, after %.0f s
usage_not_rolled_up | reason | usage cannot be rolled up now: %s
usage_not_rolled_up | reason | usage cannot be rolled up: %s
records_purged | count kind | purged %d records of %s
audit_file_damaged | path record reason | audit file %s: its record %d %s
audit_file_damaged | path | audit file %s: its last line is no part of the log
audit_file_behind | path reason | audit file %s: %s; it will be brought up to date when that is over
audit_file_behind | path wait_s | audit file %s: its file system has not answered for %.0f s; the next start appends the rest
certificate_not_renewed | reason | the controller's certificate cannot be renewed: %s
certificate_renewed | until | the controller has a new certificate, until %s UTC
flight_recorder_off | reason | the flight recorder is off: %s
mail_dropped | job kind user - - | job %d: mail %s is dropped, as are further ones of %s: %d of this user wait, %d of all
mail_not_sent | job kind reason | job %d: no mail %s: %s
mail_program_failed | reason | MailProg cannot be run, jobs' mails are not sent: %s
site_program_failed | job program reason | job %d: %s: %s
site_program_printed | program output | %s printed: %s
trigger_ran | trigger program argument | %s: %s %s has ended
submit_filter_said | note | the submit filter: %s
submit_filter_failed | what outcome reason | the submit filter has failed at %s, which is %s: %s
deliveries_stopped | reason | deliveries stop until the configuration is read again: %s
deliveries_wait | receiver reason | %s: deliveries wait: %s
deliveries_ended | reason | deliveries of a receiver have ended until the next start: %s
delivery_failed | receiver sequence reason | %s: event %d is not delivered, and will be tried again: %s
delivery_given_up | receiver sequence reason | %s: event %d is given up: %s; see penstock db dead-letters
deliveries_resumed | receiver | %s: takes events again
dead_letter_lost | receiver sequence reason | %s: the dead letter %d cannot be kept: %s
delivery_place_not_stored | reason | how far deliveries have come cannot be stored now: %s
events_not_described | | events of a batch cannot be described: they are not delivered
spans_not_made | | spans of a batch cannot be made: they are not sent
spans_not_taken | reason | traces: spans are not taken: %s
spans_resumed | | traces: the collector takes spans again
metrics_open | host port | metrics: all machines that reach %s:%d can read them: set \
PenstockMetricsAllow or PenstockMetricsTokenFile
"""

#: Of the node daemon.
_NODED: Final = """\
started | node path cgroups | node %s: spool %s, control groups %s
registered | cluster | registered with %s
debug_flag | flag what | DebugFlags=%s: %s
debug_flag | flag step what | DebugFlags=%s: step %s: %s
debug_flags_changed | flags | DebugFlags: %s
output_reader_failed | status | a reader of output has ended with status %d
controller_lost | controller reason pause_s | controller %s: %s; next try in about %.1f s
local_config_not_used | reason | slurm.conf of this node cannot be used, so it is not: %s
spool_loss_not_noticed | reason | %s; a lost spool will not be noticed
spool_full | path reason | %s: %s; no new steps before there is room
spool_has_room | path | %s: there is room again
spool_file_damaged | path reason | spool file %s: %s; it is taken as missing
spool_file_damaged | path reason | spool file %s is damaged (%s); it is taken as missing
spool_file_not_written | path reason - | %s: %s; %s
step_unkillable | step | step %s has not ended since SIGKILL was sent; look for processes in D state
step_adopted | step pid | step %s: adopted, supervisor pid %d
step_not_adopted | step reason | step %s: not adopted yet: %s
step_hang_signalled | step - reason | step %s was sent SIG%s (PenstockHangAction): %s
step_suspected | step reason | step %s may hang: %s
step_goes_on | step | step %s goes on
step_said | step output | step %s: %s
supervisor_failed | step output | step %s: its supervisor failed: %s
supervisor_lost | step status | step %s: its supervisor has ended without a report (wait status %d)
supervisor_lost | step | step %s: its supervisor and its record are lost
supervisor_deaf | step signals reason | step %s: its supervisor does not take signals %s: %s
step_record_lost | step | step %s has ended, and its record is lost or damaged
step_record_lost | step pids | step %s: its record is lost or damaged; ending it, its supervisors are %s
step_unknown | step pids | step %s is not in the spool; killing its processes %s
steps_unknown | pids | supervisors %s supervise steps without a record: killing them and their steps
processes_left | | processes of steps without a record are left, and SIGKILL does not end them
processes_left | step | step %s: processes of it may be left
step_folders_left | | cannot remove step folders
file_removed | path | removed %s of a job that is no longer here
file_not_removed | path reason | cannot remove %s: %s
site_program_printed | program output | %s printed: %s
site_program_failed | program reason | %s: %s
rebooting | program reason | rebooting by %s: %s
reboot_impossible | | ordered to reboot, but there is no RebootProgram
login_adopted | uid pid job | uid %d: pid %d belongs to job %d
login_not_adopted | uid job | uid %d logs in, but job %d has no extern step (PrologFlags=Contain)
login_not_adopted | uid pid job reason | uid %d logs in, but pid %d could not be put into job %d: %s
adoption_off | path reason | %s: %s; ssh sessions are not adopted
tokens_unavailable | reason | commands in jobs get no tokens here: %s
tokens_unavailable | reason | commands in jobs do not find the controller: %s
login_host_ready | host path | login host %s: users of %s get tokens
certificate_renewed | until | a new certificate is in use, until %s UTC
step_client_gone | reason | a client of steps has disconnected: %s
step_clients_not_accepted | reason | cannot accept clients of steps: %s
metrics_not_listening | reason | no metrics: %s
metrics_not_listening | host port reason | no metrics: %s:%d: %s; --metrics-port chooses another port
gpus_none | reason | no GPUs: %s
gpu_order_without_gpu | | an order about a GPU came, but NVML has none
gpu_access_kept | job reason | job %s: its access to the GPUs that it has released cannot be revoked: %s
gpu_energy_estimated | step | step %s: the energy of its GPUs is an estimate
gpu_figures_lost | step reason | step %s: its GPU figures cannot be read and start from zero: %s
gpu_figures_lost | step reason | step %s: its GPU figures cannot be kept: %s
gpu_process_killed | gpu pid uid job | GPU %s: killing pid %d of uid %d, left by job %d
gpu_work_done | gpu work outcome | GPU %s: %s: %s
gpu_work_begun | gpu work program | GPU %s: %s by %s
gpu_work_failed | gpu reason | GPU %s: %s
gpu_works_left | signal | programs of works on GPUs are left, and signal %d does not end them
gpu_leftovers_unseen | | this daemon has pids of its own: what jobs leave on GPUs is not looked for
gpu_health_not_kept | path reason | %s: %s; after a restart the health of the GPUs is assessed again
gpu_divided | gpu layout | GPU %s is %s now
gpu_divided_by_others | gpu layout | GPU %s is %s, which the controller did not ask for; it is left so
gpu_dividing | gpu layout | GPU %s: making it %s again
gpu_division_stuck | pid gpu | pid %d, which divides GPU %s, does not end: it is stuck in the driver
mps_failed | step reason | step %s: MPS: %s
nvml_slow | function gpu waited_s | NVML is slow: %s of %s since %.0f s
nvml_hangs | function gpu | NVML hangs in %s of %s; the child is abandoned
nvml_back | gpu | NVML answers again for %s
nvml_away | reason | NVML does not answer: %s
gpu_child_invalid | role reason | GPU child %s sent an invalid message: %s
gpu_child_ended | role | the GPU child %s has ended
gpu_child_stuck | pid | the GPU child %d does not die; it is in the driver
gpu_child_stuck | count | %d GPU children cannot be killed; no more are started until one has ended
gpu_child_not_started | role reason | cannot start the GPU child %s: %s
gpu_detection_changed | setting - | AutoDetect=%s: GPUs are %slooked for at the daemon's next start
gpu_detection_not_kept | path reason setting | spool file %s: %s; AutoDetect=%s has no effect
gpu_job_map_not_written | path reason | PenstockGpuJobMapDir=%s: %s; exporters have no job data
xids_from_nvml_only | path reason | %s: %s; XIDs are received from NVML only
xids_from_nvml_only | reason | the kernel's log: %s; XIDs are received from NVML only
"""

#: Of the REST daemon.
_RESTD: Final = """\
request_answered | source method path status | %s %s %s: %d
request_failed | method path | %s %s: internal error
session_failed | | a connection to a session: internal error
answer_cut | path reason | %s: the answer ends early: %s
stream_cut | path | %s: a stream ends: the caller does not read
requests_refused | count peer reason | %d requests refused, the last one of %s: %s
template_left_out | path reason | template %s is left out: %s
templates_read | count - path | %d job templates %s in %s
templates_not_read | path reason | the templates in %s cannot be read: %s
"""

#: Of the daemon that checks passwords.
_PAMD: Final = """\
login | user source | login of %s from %s
login_refused | user source reason | login of %s from %s refused: %s
no_token | user reason | no token for %s: %s
stranger | uid | uid %d is not the REST daemon's: disconnected
question_unanswered | reason | a question is not answered: %s
"""

#: Events that are named where they are logged, and what they tell.
NAMED: Final = {
    "accounting_failed": "an answer of accounting failed",
    "certificate_ends": "the controller's or the node's certificate ends soon, or was not renewed",
    "config_warning": "what an administrator should know about the configuration",
    "core_warning": "a decision of the controller that an administrator should know",
    "fatal": "the daemon cannot continue",
    "gpu_health": "the health of a GPU has changed, or an order about it failed",
    "reload_refused": "the configuration was not read again, and why",
    "setting_not_honoured": "a setting that this node cannot honour",
    "trigger_failed": "the program of a trigger failed",
}


def _read(*tables: str) -> dict[str, LogEvent]:
    """Returns the events by their texts."""
    rows = [[part.strip() for part in line.split("|", 2)] for table in tables for line in table.splitlines()]
    return {text: LogEvent(name, tuple(fields.split())) for name, fields, text in rows}


#: The events of each daemon by their texts.
BY_DAEMON: Final = {
    "ctld": _read(_SHARED, _CTLD),
    "noded": _read(_SHARED, _NODED),
    "restd": _read(_SHARED, _RESTD),
    "pamd": _read(_SHARED, _PAMD),
}
_OTHER: Final = LogEvent(OTHER)


def event_of(daemon: str, text: object) -> LogEvent:
    """Returns the event of a message's text before its arguments are in it."""
    return BY_DAEMON[daemon].get(text, _OTHER) if isinstance(text, str) else _OTHER


def job_event(word: str) -> str:
    """Returns the event of a line of a job's history."""
    return "job_" + word.replace(" ", "_")

"""The controller process: assembles its parts, handles its signals, shuts down.

SIGTERM and SIGINT stop it cleanly: no new requests, accepted ones are committed and answered, the lease is released.
SIGHUP reads the configuration again and reopens the log. A fatal error (see loop.py) flushes the log and exits at once
with status 70.
"""

import asyncio
import gc
import logging
import os
import signal
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial
from importlib import metadata
from pathlib import Path
from typing import Final

import msgspec

from accounting.database import is_server
from accounting.records import Records
from accounting.traces import Traces
from ctld.agents.fence import Fencer
from ctld.agents.registry import LinkRegistry
from ctld.agents.specs import SpecCache
from ctld.core.controller import Core
from ctld.core.queue.rights import has_job
from ctld.core.records.effects import Batch, Refusal
from ctld.core.records.events import LoadConfig, RecordAct
from ctld.core.recover import LoadedState as LoadedState
from ctld.core.requests.submit import SUBMIT_KEY_AGE_US
from ctld.delivery.deliverer import Deliveries
from ctld.delivery.traces import TraceSender
from ctld.metrics import Metrics
from ctld.observe.exporter import MetricsExporter
from ctld.rpc.gate.auth import Authenticator, Roles
from ctld.rpc.gate.connections import ConnectionLimits, Connections, raise_limit
from ctld.rpc.gate.neighbourfacts import registration
from ctld.rpc.gate.services import Services
from ctld.rpc.gate.tokenuses import TokenUses
from ctld.rpc.gate.usertokens import UserTokens
from ctld.rpc.server import listen, make_server
from ctld.runtime import exits, heap
from ctld.runtime.amending import Amender
from ctld.runtime.auditfile import AuditCopies
from ctld.runtime.certificates import Certificates
from ctld.runtime.clock import MonotonicWallClock
from ctld.runtime.errors import BadRequest, NotTaken
from ctld.runtime.fatalcauses import FatalCauses
from ctld.runtime.flightrec import FlightRecorder
from ctld.runtime.logs import log_settings, log_transitions
from ctld.runtime.lookups import Lookups
from ctld.runtime.loop import Runtime
from ctld.runtime.mail import MailRunner
from ctld.runtime.reload import Preview, missing_qos, preview, problems_of, read
from ctld.runtime.rolling import RollUps
from ctld.runtime.scripts import ScriptRunner
from ctld.runtime.snapshot import Snapshot
from ctld.runtime.statefolder import StateFolder
from ctld.runtime.submitfilter import SubmitFilter
from ctld.runtime.triggers import TriggerRunner
from ctld.store.address import database_address
from ctld.store.committer import Store
from ctld.store.errors import StorageAway, StorageFull, StoreDamaged, StoreError
from ctld.store.loss import NOTHING, Accept
from ctld.store.registry import Registry
from ctld.store.witness import Witness
from penstock.clusterfile import ClusterFile, write_cluster
from penstock.config import Loaded, changes
from penstock.config.amend import amend_all, kept
from penstock.config.filterfiles import cli_filters
from penstock.errors import BadSetup
from penstock.interpreter import running_build
from penstock.logs.daemonlog import DaemonLog
from penstock.security.authd import AuthServer
from penstock.security.ca import Credentials, create_ca, ensure_controller, load_ca, load_denied
from penstock.security.join import JoinTokens
from penstock.security.keyfiles import write_public
from penstock.security.tokens import TokenIssuer, TokenVerifier
from penstock.startwatch import StartWatch
from penstock.threads import prepare_loop, started_pool
from penstock.values.config import Config
from penstock.values.refusals import TEXT, Code

log = logging.getLogger("penstock.ctld")

#: Time limit for calls in progress at a stop.
STOP_GRACE_S: Final = 1.0
#: A stop does not wait for a commit that waits for space: its contents were not acknowledged.
STOP_LIMIT_S: Final = 20.0


def version() -> str:
    """Returns the installed version."""
    try:
        return metadata.version("penstock")
    except metadata.PackageNotFoundError:
        return "0.1.0"


@dataclass
class ControllerDaemon:
    """The parameters of a controller."""

    config_path: str
    config: Config
    folder: StateFolder
    logs: DaemonLog
    accept: Accept = NOTHING
    watch: StartWatch = field(
        default_factory=lambda: StartWatch(log.warning)
    )  # one that is not entered watches nothing


async def serve(daemon: ControllerDaemon) -> int:
    """Runs the controller from the state folder to a clean stop."""
    heap.set_limits()
    prepare_loop(asyncio.get_running_loop())
    controller = Controller(daemon, handles_signals=True)
    gc.collect()  # garbage of reading files and modules; loaded rows have no cycles
    gc.disable()  # it would scan all loaded objects repeatedly without result
    await controller.start()
    daemon.watch.over()
    gc.freeze()
    heap.release_free()
    gc.set_threshold(*heap.GC_THRESHOLDS)
    gc.enable()
    try:
        await controller.until_stopped()
    finally:
        await controller.stop()
    return 0


class Controller:
    """One run of the controller.

    Its parts exist once `start` has returned, for tests and benchmarks: `runtime` with the core, `services`, `registry`
    of the nodes' links, `gate` of requests, `connections`, `certificates`, `rollups`.
    """

    def __init__(self, daemon: ControllerDaemon, handles_signals: bool = False) -> None:
        self._daemon = daemon
        self._handles_signals = handles_signals
        self._clock = MonotonicWallClock()
        self._boot_at_us = self._clock()
        self._stop_asked = asyncio.Event()
        self._acts: set[asyncio.Task[object]] = set()
        self._reader = started_pool(1, "reader")
        self._exporter: MetricsExporter | None = None

    async def start(self) -> None:
        """Starts everything up to the listening sockets. Raises BadSetup, StoreError."""
        config = self._daemon.config
        folder = self._daemon.folder
        clock = self._clock
        self.certificates = self._make_certificates(config)
        credentials = self.certificates.held
        secret = folder.stream_secret()
        address, loaded = self._lead(config)
        store = self._store
        epoch = loaded.epoch
        now_us = clock()
        config = self._amended(config, loaded)
        recorder = FlightRecorder(folder.path / "flight")
        recorder.start(now_us, config, loaded)
        snapshot, core = self._state(config, loaded, now_us)
        del loaded
        self.runtime = runtime = Runtime(
            core, store, snapshot, clock, self._fail, recorder, Metrics(), StorageFull,
            StorageAway, clock.take_jump, FatalCauses(folder.path / "lastwords.json", now_us),
        )  # fmt: skip
        self._amender = Amender(runtime, self._config_folder)
        self._records = Records(address)
        self._traces = Traces(address)
        specs = SpecCache(store.spec, self._reader, runtime.metrics)
        self.registry = LinkRegistry(runtime, specs, version(), secret)
        self._fencer = Fencer(runtime)
        self._scripts = ScriptRunner(runtime, config.cluster_name)
        self._lookups = Lookups()
        self._filter = SubmitFilter(self._lookups, runtime.diagnostics, self._config_folder)
        self._mails = MailRunner(runtime, self._lookups)
        self._triggers = TriggerRunner(runtime, config.cluster_name, self._lookups)
        self.rollups = RollUps(runtime, str(address), store.leads, folder.path)
        self._deliveries = Deliveries(runtime, str(address), store.leads, folder.path, self._lookups)
        self._spans = TraceSender(runtime, version())
        self._daemon.logs.span_of = self._spans.ids_of
        self._copies = AuditCopies(self._traces, folder.path, lambda: core.state.config)
        runtime.observers += [partial(_keep_specs, specs), log_transitions, self._copies.committed]
        runtime.debug.configure(config.debug_flags)
        self.authenticator = self._make_authenticator(credentials, config)
        endpoint = f"{config.controller_addr}:{config.slurmctld_port}"
        tokens = JoinTokens(folder.certificates / "join.json", config.cluster_name, credentials.ca, endpoint)
        self.services = self._make_services(specs, tokens, secret)
        try:
            await self._serve(config)
            write_public(folder.public_ca, credentials.ca_pem)
            self._write_cluster_file(config)
        except (BadSetup, OSError):
            await self._server.stop(0)  # gRPC shows a traceback of a server that is left to itself
            raise
        _warn(*missing_qos(config, core.state.qos), running_build().warning())
        log.info(
            "cluster %s: epoch %d, %d jobs, %d nodes; listening on %s and %s:%d",
            config.cluster_name, epoch, len(core.state.jobs), len(config.nodes), endpoint,
            config.controller_addr, config.penstock_node_port,
        )  # fmt: skip

    def _make_services(self, specs: SpecCache, tokens: JoinTokens, secret: bytes) -> Services:
        """Returns the parts that the services share."""
        return Services(
            self.runtime,
            self._store,
            specs,
            self.registry,
            tokens,
            partial(load_ca, self._daemon.folder.certificates),
            self._reconfigure,
            self._preview,
            self._shutdown,
            self._boot_at_us,
            version(),
            self._records,
            secret,
            self.authenticator.directory,
            self.authenticator.user_tokens,
            self._amender,
            self._traces,
            self.rollups,
            self.certificates.now,
            self.certificates.ends,
            self._filter,
            self._neighbours_address,
        )

    async def _serve(self, config: Config) -> None:
        """Starts the loop and what answers."""
        if self._handles_signals:
            self._install_signal_handlers()
        folder, certificates = self._daemon.folder, self.certificates
        self._server, self.calls, self.gate = make_server(self.services, self.authenticator, folder.call_socket)
        self._listen(config, certificates.now)
        if config.metrics_type:
            self._exporter = MetricsExporter(self.services, config)
            await self._exporter.start(config)
        self._lookups.start()
        await self._filter.start(config)
        await self._deliveries.use(config)
        await self._spans.use(config)
        self.runtime.start()
        self.rollups.start()
        await self._server.start()
        await self.calls.start()
        self._auth = AuthServer(folder.auth_socket, TokenIssuer(certificates.held), self._clock)
        self._auth.start()
        certificates.renewed = lambda made: self._auth.sign_with(TokenIssuer(made))
        certificates.start()

    def _listen(self, config: Config, credentials: Callable[[], Credentials]) -> None:
        """Opens the listening sockets, and monitors their connections."""
        folder, limits = self._daemon.folder, ConnectionLimits.of(raise_limit())
        listen(self._server, config, folder.socket, credentials)
        ports = config.slurmctld_port, config.penstock_node_port
        paths = str(folder.socket), str(folder.call_socket)
        self.connections = Connections(paths, *ports, limits, {0, os.geteuid()})
        self.connections.start()

    async def until_stopped(self) -> None:
        """Returns when it is time to stop."""
        await self._stop_asked.wait()

    async def stop(self) -> None:
        """Commits and answers accepted requests, then stops."""
        self._auth.close()
        self.certificates.stop()
        self.services.denials.flush()
        try:
            async with asyncio.timeout(STOP_LIMIT_S):
                await self.runtime.stop()
        except TimeoutError:
            log.error("the last commit does not end; nothing in it was acknowledged")
            self._fail("the stop took too long", None)
        await self._deliveries.stop()
        await self._spans.stop()
        self.rollups.stop()
        if self._exporter is not None:
            self._exporter.stop()
        self._fencer.stop()
        self.registry.stop()
        self._scripts.stop()
        self._mails.stop()
        self._triggers.stop()
        await asyncio.gather(self._server.stop(STOP_GRACE_S), self.calls.stop(STOP_GRACE_S))
        self._filter.stop()
        self._lookups.stop()
        self.connections.stop()
        self._copies.stop()
        self._records.close()
        self._traces.close()
        self._store.close()
        self._reader.shutdown(wait=True)
        log.info("stopped")

    def _lead(self, config: Config) -> tuple[str, LoadedState]:
        """Opens the database, becomes its leader and loads it. Returns the store and the loaded state."""
        folder, clock = self._daemon.folder, self._clock
        address = database_address(
            config.penstock_database_url,
            self._daemon.config_path,
            folder.database,
            schema=config.penstock_database_schema,
        )
        self._neighbours_address = address
        if config.penstock_database_read_url:
            found = database_address(config.penstock_database_read_url, self._daemon.config_path, folder.database)
            if not (is_server(address) and is_server(found)):
                raise BadSetup("PenstockDatabaseReadUrl is for other clusters in a PostgreSQL database; remove it")
            self._neighbours_address = found
        accept = self._daemon.accept
        witness = self._witness(config)
        if is_server(address):
            self._daemon.watch.over()  # it has deadlines of its own
        else:
            self._daemon.watch.at(address)
        self._registry = Registry(address, bool(config.penstock_database_schema))
        self._store = Store.open(
            address, folder.lease_name, witness, partial(self._registry.check, config.cluster_name)
        )
        epoch = self._store.acquire_lease(clock(), accept)
        if accept.is_accepted:
            log.warning(
                "a loss of the database's end is accepted: epoch %d; nothing starts before all nodes are here", epoch
            )
        loaded = self._store.load(clock(), config.min_job_age_s * 1_000_000, SUBMIT_KEY_AGE_US)
        _warn(self._registry.write(registration(config, clock())))
        return address, loaded._replace(epoch=epoch, loss_accepted=accept.is_accepted)

    def _witness(self, config: Config) -> Witness:
        path = Path(config.penstock_witness_file or self._daemon.folder.witness)
        self._daemon.watch.at(path)
        is_new = not path.exists() and not self._daemon.folder.database.exists()
        try:
            witness = Witness(path)
        except OSError as error:
            raise BadSetup(f"witness file {path}: {error.strerror}") from error
        if witness.is_damaged:
            log.error("%s: the witness of acknowledged changes is damaged, and is replaced: whether the database has lost "
                      "its end before this start is not known; check the disk", path)  # fmt: skip
        elif witness.found is None and not is_new:
            log.warning("%s: no witness file of acknowledged changes exists, and a new one is created: whether the database "
                        "has lost its end before this start is not known", path)  # fmt: skip
        return witness

    # ---- parts ---------------------------------------------------------------------------------------------------

    def _make_certificates(self, config: Config) -> Certificates:
        """Creates the controller's credentials and keeps them valid; a new cluster gets a CA of its own."""
        folder = self._daemon.folder.certificates
        self._daemon.watch.at(folder)
        now_us = self._clock()
        if not (folder / "ca.pem").exists():
            create_ca(folder, config.cluster_name, now_us)
            log.info("a new certificate authority was made in %s", folder)
        hosts = tuple(dict.fromkeys((config.controller_host, config.controller_addr, "localhost", "127.0.0.1", "::1")))

        def make() -> Credentials:
            return ensure_controller(folder, config.controller_host, hosts, self._clock())

        return Certificates(folder, make(), make, self._clock)

    def _make_authenticator(self, credentials: Credentials, config: Config) -> Authenticator:
        denied = load_denied(self._daemon.folder.certificates / "denied.json")
        cluster = credentials.identity.cluster
        verifier = TokenVerifier(credentials.ca, cluster, self._boot_at_us, denied)
        verifier.has_job = partial(has_job, self.runtime.core.state)
        state = self.runtime.core.state
        uses = TokenUses(self.runtime.post, self._clock)
        user_tokens = UserTokens(state.revoked.by_user, self._clock, state.personal_tokens.by_id, uses)
        _warn(user_tokens.load(config, cluster))
        return Authenticator(
            verifier,
            credentials.ca,
            cluster,
            Roles.of(config, self.runtime.users),
            self._clock,
            self._lookups,
            denied,
            credentials.identity.name,
            user_tokens,
        )

    def _state(self, config: Config, loaded: LoadedState, now_us: int) -> tuple[Snapshot, Core]:
        """Creates the read snapshot and the core. The core empties the list of loaded jobs, so it comes second."""
        snapshot = Snapshot(loaded.jobs, loaded.steps)
        return snapshot, Core(config, loaded, now_us, consume=True)

    def _amended(self, config: Config, loaded: LoadedState) -> Config:
        """Returns the file's configuration with the changes by hand."""
        amended, conflicts = amend_all(config, loaded.amendments, self._config_folder)
        for text in conflicts:
            log.warning("a change that was made at run time no longer fits %s: %s", self._daemon.config_path, text)
        return amended

    @property
    def _config_folder(self) -> str:
        return os.path.dirname(self._daemon.config_path)

    def _write_cluster_file(self, config: Config) -> None:
        """Writes what commands read. Raises OSError."""
        folder = self._daemon.folder
        address = f"{config.controller_addr}:{config.slurmctld_port}"
        self._cluster_file = ClusterFile(
            cluster_name=config.cluster_name,
            host=config.controller_host,
            socket=str(folder.socket),
            call_socket=str(folder.call_socket),
            auth_socket=str(folder.auth_socket),
            address=address,
            ca=str(folder.public_ca),
            conf=self._daemon.config_path,
            cli_filters=cli_filters(config, self._config_folder),
        )
        write_cluster(folder.path / "cluster.json", self._cluster_file)

    # ---- actions -------------------------------------------------------------------------------------------------

    def _install_signal_handlers(self) -> None:
        """Installs handlers for SIGTERM, SIGINT, SIGHUP and SIGUSR2: before anything answers, since a controller that answers
        ends with a clean stop, and SIGUSR2 (sent by rules of logrotate for Slurm) would end it."""
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self._shutdown, signal.Signals(number).name)
        loop.add_signal_handler(signal.SIGHUP, self._hang_up)
        loop.add_signal_handler(signal.SIGUSR2, self._daemon.logs.hang_up)

    def _shutdown(self, why: str) -> None:
        log.info("stopping: %s", why)
        self._stop_asked.set()

    def _hang_up(self) -> None:
        self._daemon.logs.hang_up()
        task = asyncio.create_task(self._reconfigure_by_signal())
        self._acts.add(task)
        task.add_done_callback(self._acts.discard)

    async def _reconfigure_by_signal(self) -> None:
        try:
            await self._reconfigure()
        except (BadRequest, NotTaken) as error:
            log.error("%s", error.text, extra={"event": "reload_refused"})

    async def _preview(self) -> Preview:
        """Computes what a reload would do now. Raises BadRequest for invalid files."""
        loaded, _ = self._kept_by_hand(await read(self._daemon.config_path))
        found = preview(self.runtime.core.state, loaded)
        return found._replace(problems=(*found.problems, *await self._filter.problems_of(loaded.config)))

    def _kept_by_hand(self, loaded: Loaded) -> tuple[Loaded, tuple[tuple[str, str], ...]]:
        """Returns the configuration of the files with objects that scontrol created and the files lack; and the changes
        that the files override."""
        made = self.runtime.core.state.amended.by_key
        keep = loaded.config.has_word("reconfig_flags", "keeppartinfo")
        stay = kept(loaded.config, made.values(), keep_partitions=keep)
        config, conflicts = amend_all(loaded.config, stay, self._config_folder)
        doubts = missing_qos(config, self.runtime.core.state.qos)
        loaded = replace(loaded, config=config, warnings=(*loaded.warnings, *conflicts, *doubts))
        return loaded, tuple(key for key in made if key not in {one.key for one in stay})

    async def _reconfigure(self, act: RecordAct | None = None) -> tuple[str, ...]:
        """Reads, checks and applies the files; all or nothing. `act`: the requesting user. Raises BadRequest, NotTaken."""
        async with self._amender.lock:
            return await self._read_again(act)

    async def _read_again(self, act: RecordAct | None) -> tuple[str, ...]:
        runtime = self.runtime
        loaded, dropped = self._kept_by_hand(await read(self._daemon.config_path))
        denied = load_denied(self._daemon.folder.certificates / "denied.json")  # first: it may be damaged
        if problems := problems_of(runtime.core.state, loaded):
            raise BadRequest(Code.CONFIG_INVALID, f"{TEXT[Code.CONFIG_INVALID]}:\n" + "\n".join(problems))
        filters = await self._filter.prepare(loaded.config)
        if act is not None:
            act = msgspec.structs.replace(
                act, after={"changes": list(changes(runtime.core.state.config, loaded.config))}
            )
        try:
            body = await runtime.ask(LoadConfig(loaded.config, runtime.new_reply_to(), (), dropped, act))
            if isinstance(body, Refusal):
                raise BadRequest(Code(body.code), body.text)
        except (BadRequest, NotTaken):
            if filters is not None:
                filters.close()
            raise
        self._filter.use(filters)
        await self._name_cli_filters(loaded.config)
        await self._deliver_by(loaded.config)
        await self._spans.use(loaded.config)
        self.authenticator.roles = Roles.of(loaded.config, runtime.users)
        self.authenticator.directory.clear()
        self.authenticator.deny(denied)
        self.registry.end_denied(denied)
        warning = await asyncio.to_thread(
            self.authenticator.user_tokens.load, loaded.config, loaded.config.cluster_name
        )
        await self._register(loaded.config)
        self.registry.send_settings()
        self._daemon.logs.set(log_settings(loaded.config))
        runtime.debug.configure(loaded.config.debug_flags)
        log.info("the configuration was read again")
        return (*loaded.warnings, warning) if warning else loaded.warnings

    async def _name_cli_filters(self, config: Config) -> None:
        """Has commands use other filters of options. A disk that takes nothing now is no reason to refuse a configuration."""
        file = self._cluster_file._replace(cli_filters=cli_filters(config, self._config_folder))
        if file == self._cluster_file:
            return
        try:
            await asyncio.to_thread(write_cluster, self._daemon.folder.path / "cluster.json", file)
            self._cluster_file = file
        except OSError as error:
            log.error("commands keep their filters of options until the configuration is read again: %s", error)

    async def _deliver_by(self, config: Config) -> None:
        """Changes the receivers of events. A database that takes nothing now is no reason to refuse a configuration."""
        try:
            await self._deliveries.use(config)
        except StoreError as error:
            log.error("deliveries stop until the configuration is read again: %s", error)

    async def _register(self, config: Config) -> None:
        """Tells the other clusters of the database. One that takes nothing now is no reason to refuse a configuration."""
        try:
            _warn(await asyncio.to_thread(self._registry.write, registration(config, self._clock())))
        except StoreError as error:
            log.error("other clusters judge by the previous configuration until it is read again: %s", error)

    def _fail(self, what: str, error: BaseException | None) -> None:
        """Exits at once: nothing uncommitted was acknowledged."""
        damaged = isinstance(error, StoreDamaged)  # an environmental error, for which a traceback is not useful
        log.critical("%s: %s", what, error or "", exc_info=None if damaged else error)
        self._daemon.logs.flush()
        os._exit(exits.DAMAGED if damaged else exits.SOFTWARE)


def _warn(*texts: str) -> None:
    """Logs what an administrator should know; "" is nothing."""
    for text in filter(None, texts):
        log.warning("%s", text, extra={"event": "config_warning"})


def _keep_specs(specs: SpecCache, batch: Batch) -> None:
    specs.keep(batch.specs)

"""The controller as a process: its parts put together, its signals, its end.

SIGTERM and SIGINT stop it cleanly: no more requests, everything that was taken is committed and answered, the lease is
given back. SIGHUP reads the configuration again and reopens the log. What cannot be mended (see loop.py) flushes the
log and leaves at once with status 70.
"""

import asyncio
import ctypes
import gc
import logging
import os
import signal
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from importlib import metadata
from typing import Any, Final

import msgspec

from accounting.records import Records
from accounting.traces import Traces
from ctld.agents.fence import Fencer
from ctld.agents.registry import Registry
from ctld.agents.specs import SpecCache
from ctld.core.controller import Core
from ctld.core.effects import Batch, Refusal
from ctld.core.events import LoadConfig, RecordAct
from ctld.core.recover import Loaded as LoadedState
from ctld.core.recover import Misfit
from ctld.core.rights import has_job
from ctld.core.submit import SUBMIT_KEY_AGE_US
from ctld.metrics import Metrics
from ctld.rpc.auth import Authenticator, Roles
from ctld.rpc.refusals import BadRequest
from ctld.rpc.server import listen, make_server
from ctld.rpc.services import Services
from ctld.runtime.amending import Amender
from ctld.runtime.auditfile import AuditCopies
from ctld.runtime.clock import Clock
from ctld.runtime.errors import NotTaken
from ctld.runtime.flightrec import FlightRecorder
from ctld.runtime.logs import LogFile, log_transitions
from ctld.runtime.loop import Runtime
from ctld.runtime.mail import MailRunner
from ctld.runtime.reload import Preview, look, missing_qos, problems_of, read
from ctld.runtime.rolling import RollUps
from ctld.runtime.scripts import ScriptRunner
from ctld.runtime.snapshot import Snapshot
from ctld.runtime.statefolder import StateFolder
from ctld.runtime.triggers import TriggerRunner
from ctld.store.committer import Store
from ctld.store.errors import StorageAway, StorageFull
from ctld.store.place import database_place
from penstock.cluster import ClusterFile, write_cluster
from penstock.config import Loaded, changes
from penstock.config.amend import amend_all, kept
from penstock.errors import BadSetup
from penstock.security.authd import AuthServer
from penstock.security.ca import Credentials, create_ca, ensure_controller, load_ca, load_denied
from penstock.security.join import JoinTokens
from penstock.security.tokens import TokenIssuer, TokenVerifier
from penstock.values.config import Config
from penstock.values.refusals import TEXT, Code

log = logging.getLogger("penstock.ctld")

EX_SOFTWARE: Final = 70
#: How long calls that are under way may take at a stop.
STOP_GRACE_S: Final = 1.0
#: A commit that waits for space is not waited for at a stop: nobody has been told of what it holds.
STOP_LIMIT_S: Final = 20.0
#: When the garbage collector looks at the young, the middle and the old objects. Calls leave cycles behind: 20,000 young
#: objects at a time held the loop for 45 ms; now it is 1 ms, and 6 ms for the middle ones. The old ones are the state, a
#: million objects without cycles: looking at those of 12,000 submissions holds the loop for 100 ms. It has to be done now
#: and then, as calls that were under way are among them: after some 10,000 calls, and not before there are a quarter more.
GC_THRESHOLDS: Final = (1_000, 5, 200)


def version() -> str:
    """The installed version."""
    try:
        return metadata.version("penstock")
    except metadata.PackageNotFoundError:
        return "0.1.0"


@dataclass
class Daemon:
    """What a controller is started with."""

    config_path: str
    config: Config
    folder: StateFolder
    logs: LogFile


async def serve(daemon: Daemon) -> int:
    """From the state folder to a clean stop."""
    controller = Controller(daemon)
    gc.collect()  # what reading files and modules has left behind; rows that are loaded leave no cycles
    gc.disable()  # it would go through all that is loaded again and again, and find nothing
    await controller.start()
    controller.heed_signals()
    gc.freeze()
    _give_back_memory()
    gc.set_threshold(*GC_THRESHOLDS)
    gc.enable()
    try:
        await controller.until_told()
    finally:
        await controller.stop()
    return 0


class Controller:
    """One run of the controller."""

    def __init__(self, daemon: Daemon) -> None:
        self._daemon = daemon
        self._clock = Clock()
        self._boot_at_us = self._clock()
        self._told = asyncio.Event()
        self._acts: set[asyncio.Task[Any]] = set()
        self._reader = ThreadPoolExecutor(1, "reader")

    async def start(self) -> None:
        """Everything up to the listening sockets. Raises BadSetup, StoreError."""
        config, folder, clock = self._daemon.config, self._daemon.folder, self._clock
        credentials = self._certificates(config)
        secret = folder.stream_secret()
        place, loaded = self._lead(config)
        store, epoch, now_us = self._store, loaded.epoch, clock()
        config = self._amended(config, loaded)
        recorder = FlightRecorder(folder.path / "flight")
        recorder.start(now_us, config, loaded)
        core = self._core(config, loaded, now_us)
        del loaded
        self._runtime = runtime = Runtime(
            core, store, Snapshot(core.state.jobs.values()), clock, self._fail, recorder, Metrics(), StorageFull,
            StorageAway, clock.take_jump,
        )  # fmt: skip
        self._amender = Amender(runtime, self._config_folder)
        self._records = Records(place)
        self._traces = Traces(place)
        specs = SpecCache(store.spec, self._reader, runtime.metrics)
        self._registry = Registry(runtime, specs, epoch, version(), secret)
        self._fencer = Fencer(runtime)
        self._scripts = ScriptRunner(runtime, config.cluster_name)
        self._mails = MailRunner(runtime)
        self._triggers = TriggerRunner(runtime, config.cluster_name)
        self.rollups = RollUps(runtime, str(place), epoch, folder.path)
        self._copies = AuditCopies(self._traces, folder.path, lambda: core.state.config)
        runtime.observers += [partial(_keep_specs, specs), log_transitions, self._copies.committed]
        self._authenticator = self._make_authenticator(credentials, config)
        address = f"{config.controller_addr}:{config.slurmctld_port}"
        self._services = services = Services(
            runtime,
            store,
            self._reader,
            specs,
            self._registry,
            JoinTokens(folder.certificates / "join.json", config.cluster_name, credentials.ca, address),
            partial(load_ca, folder.certificates),
            self._reconfigure,
            self._preview,
            self._shutdown,
            epoch,
            self._boot_at_us,
            version(),
            self._records,
            secret,
            self._authenticator.directory,
            self._amender,
            self._traces,
            self.rollups,
        )
        self._server = make_server(services, self._authenticator)
        listen(self._server, config, folder.socket, credentials)
        runtime.start()
        self.rollups.start()
        await self._server.start()
        self._auth = AuthServer(folder.auth_socket, TokenIssuer(credentials), clock)
        self._auth.start()
        write_cluster(folder.path / "cluster.json", self._cluster_file(config, address))
        for warning in missing_qos(config, core.state.qos):
            log.warning("%s", warning)
        log.info(
            "cluster %s: epoch %d, %d jobs, %d nodes; listening on %s and %s:%d",
            config.cluster_name, epoch, len(core.state.jobs), len(config.nodes), address,
            config.controller_addr, config.penstock_node_port,
        )  # fmt: skip

    async def until_told(self) -> None:
        """Return when it is time to stop."""
        await self._told.wait()

    async def stop(self) -> None:
        """Commit and answer what was taken, then leave."""
        self._auth.close()
        self._services.denials.flush()
        try:
            async with asyncio.timeout(STOP_LIMIT_S):
                await self._runtime.stop()
        except TimeoutError:
            log.error("the last commit does not end; what it holds has been told to nobody")
            self._fail("the stop took too long", None)
        self.rollups.stop()
        self._fencer.stop()
        self._registry.stop()
        self._scripts.stop()
        self._mails.stop()
        self._triggers.stop()
        await self._server.stop(STOP_GRACE_S)
        self._copies.stop()
        self._records.close()
        self._traces.close()
        self._store.close()
        self._reader.shutdown(wait=True)
        log.info("stopped")

    def _lead(self, config: Config) -> tuple[str, LoadedState]:
        """Open the database, become its leader, read it: its place, and what is in it."""
        folder, clock = self._daemon.folder, self._clock
        place = database_place(config.penstock_database_url, self._daemon.config_path, folder.database)
        self._store = Store.open(place, folder.holder)
        epoch = self._store.acquire_lease(clock())
        loaded = self._store.load(clock(), config.min_job_age_s * 1_000_000, SUBMIT_KEY_AGE_US)
        return place, loaded._replace(epoch=epoch)

    # ---- parts ---------------------------------------------------------------------------------------------------

    def _certificates(self, config: Config) -> Credentials:
        """The controller's credentials; a new cluster gets a CA of its own."""
        folder = self._daemon.folder.certificates
        now_us = self._clock()
        if not (folder / "ca.pem").exists() and not (folder / "ca.key").exists():
            create_ca(folder, config.cluster_name, now_us)
            log.info("a new certificate authority was made in %s", folder)
        hosts = tuple(dict.fromkeys((config.controller_host, config.controller_addr, "localhost", "127.0.0.1", "::1")))
        return ensure_controller(folder, config.controller_host, hosts, now_us)

    def _make_authenticator(self, credentials: Credentials, config: Config) -> Authenticator:
        denied = load_denied(self._daemon.folder.certificates / "denied.json")
        cluster = credentials.identity.cluster
        verifier = TokenVerifier(credentials.ca, cluster, self._boot_at_us, denied)
        verifier.has_job = partial(has_job, self._runtime.core.state)
        return Authenticator(
            verifier,
            credentials.ca,
            cluster,
            Roles.of(config, self._runtime.core.state.shares.people),
            self._clock,
            denied,
        )

    def _core(self, config: Config, loaded: LoadedState, now_us: int) -> Core:
        try:
            return Core(config, loaded, now_us)
        except Misfit as error:
            hint = "take the change back and start; make it again when those jobs have ended"
            raise BadSetup(f"{self._daemon.config_path}: the queue does not fit it:\n{error}\n{hint}") from error

    def _amended(self, config: Config, loaded: LoadedState) -> Config:
        """The file's configuration with what was changed by hand."""
        amended, misfits = amend_all(config, loaded.amendments, self._config_folder)
        for text in misfits:
            log.warning("a change that was made by hand does not fit %s any more: %s", self._daemon.config_path, text)
        return amended

    @property
    def _config_folder(self) -> str:
        return os.path.dirname(self._daemon.config_path)

    def _cluster_file(self, config: Config, address: str) -> ClusterFile:
        folder = self._daemon.folder
        return ClusterFile(
            cluster_name=config.cluster_name,
            host=config.controller_host,
            socket=str(folder.socket),
            auth_socket=str(folder.auth_socket),
            address=address,
            ca=str(folder.certificates / "ca.pem"),
        )

    # ---- acts ----------------------------------------------------------------------------------------------------

    def heed_signals(self) -> None:
        """SIGTERM, SIGINT and SIGHUP are for this controller."""
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self._shutdown, signal.Signals(number).name)
        loop.add_signal_handler(signal.SIGHUP, self._hang_up)

    def _shutdown(self, why: str) -> None:
        log.info("stopping: %s", why)
        self._told.set()

    def _hang_up(self) -> None:
        self._daemon.logs.reopen()
        task = asyncio.create_task(self._reconfigure_by_signal())
        self._acts.add(task)
        task.add_done_callback(self._acts.discard)

    async def _reconfigure_by_signal(self) -> None:
        try:
            await self._reconfigure()
        except (BadRequest, NotTaken) as error:
            log.error("%s", error.text)

    async def _preview(self) -> Preview:
        """What a reload would do now. Raises BadRequest for files that cannot be used."""
        loaded, _ = self._kept_by_hand(await read(self._daemon.config_path))
        return look(self._runtime.core.state, loaded)

    def _kept_by_hand(self, loaded: Loaded) -> tuple[Loaded, tuple[tuple[str, str], ...]]:
        """What was read, with what scontrol made and the file does not say; and the changes that the file takes back."""
        made = self._runtime.core.state.amended.by_key
        keep = loaded.config.has_word("reconfig_flags", "keeppartinfo")
        stay = kept(loaded.config, made.values(), keep_partitions=keep)
        config, misfits = amend_all(loaded.config, stay, self._config_folder)
        doubts = missing_qos(config, self._runtime.core.state.qos)
        loaded = replace(loaded, config=config, warnings=(*loaded.warnings, *misfits, *doubts))
        return loaded, tuple(key for key in made if key not in {one.key for one in stay})

    async def _reconfigure(self, act: RecordAct | None = None) -> tuple[str, ...]:
        """Read, check, take into force; all or nothing. `act`: whose wish it is. Raises BadRequest, NotTaken."""
        async with self._amender.lock:
            return await self._read_again(act)

    async def _read_again(self, act: RecordAct | None) -> tuple[str, ...]:
        runtime = self._runtime
        loaded, dropped = self._kept_by_hand(await read(self._daemon.config_path))
        if problems := problems_of(runtime.core.state, loaded):
            raise BadRequest(Code.CONFIG_INVALID, f"{TEXT[Code.CONFIG_INVALID]}:\n" + "\n".join(problems))
        if act is not None:
            act = msgspec.structs.replace(
                act, after={"changes": list(changes(runtime.core.state.config, loaded.config))}
            )
        body = await runtime.ask(LoadConfig(loaded.config, runtime.new_reply_to(), (), dropped, act))
        if isinstance(body, Refusal):
            raise BadRequest(Code(body.code), body.text)
        self._authenticator.roles = Roles.of(loaded.config, runtime.core.state.shares.people)
        self._authenticator.directory.clear()
        self._authenticator.deny(load_denied(self._daemon.folder.certificates / "denied.json"))
        self._registry.tell_settings()
        self._daemon.logs.set(loaded.config.slurmctld_debug, loaded.config.log_time_format)
        log.info("the configuration was read again")
        return loaded.warnings

    def _fail(self, what: str, error: BaseException | None) -> None:
        """Leave at once: nothing that is not committed has been told to anybody."""
        log.critical("%s: %s", what, error or "", exc_info=error)
        self._daemon.logs.flush()
        os._exit(EX_SOFTWARE)


def _give_back_memory() -> None:
    """Hand what reading the database has left free in the C library's heap back to the system, where it can do that."""
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(0)


def _keep_specs(specs: SpecCache, batch: Batch) -> None:
    specs.keep(batch.specs)

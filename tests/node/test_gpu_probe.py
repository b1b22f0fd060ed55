"""The child that asks NVML, with the real pynvml and the fake library: what there is, and how it is."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import msgspec
import pytest
from fakenvml import FakeNvml
from gpuchild import GpuChild
from patience import ANSWER_S

from nodedaemon.core.gpumessages import Asking, Lifetime, Process, normal_bus_id
from nodedaemon.gpu.finding import type_of
from nodedaemon.gpu.frames import Answered, AskLifetimes, PollNow, Settle, Setup

ROOT = Path(__file__).resolve().parents[2]
H200 = "GPU-aaaaaaaa-0000-4000-8000-000000000000", "GPU-bbbbbbbb-0000-4000-8000-000000000001"


@pytest.fixture
def fake(tmp_path):
    return FakeNvml(tmp_path / "state")


@pytest.fixture
def child(fake):
    with GpuChild("poll", fake.env()) as child:
        yield child


def first_found(child):
    return child.word().found


# ---- what there is


def test_the_whole_inventory(child):
    found = first_found(child)
    assert (found.driver, found.cuda, found.nvml, found.why, found.code) == (
        "580.159.04",
        "13.0",
        "13.580.159.04",
        "",
        0,
    )
    first, second = found.devices
    assert msgspec.structs.asdict(first) == {
        "uuid": H200[0], "index": 0, "minor": 1, "type": "h200", "memory_mb": 143771, "name": "NVIDIA H200",
        "bus_id": "00000000:19:00.0", "capability": "9.0", "near_cpus": tuple(range(8)), "numa_node": 0,
        "links": (-1, 200), "serial": "1650000000001", "vbios": "96.00.CF.00.01", "parent": "", "profile": "",
        "slices": 0, "gpu_instance": -1, "compute_instance": -1, "mig_enabled": False, "has_nvswitch": False,
        "files": ("/dev/nvidia1",), "nvml_index": 0,
    }  # fmt: skip
    assert (second.uuid, second.index, second.minor, second.files) == (H200[1], 1, 0, ("/dev/nvidia0",))
    assert (second.near_cpus, second.numa_node, second.links) == (tuple(range(8, 16)), 1, (200, -1))


def test_indexes_are_in_the_order_of_bus_ids(tmp_path):
    fake = FakeNvml(tmp_path / "state", changes={"gpu.0.busid": "0001:9a:00"})
    with GpuChild("once", fake.env()) as child:
        devices = first_found(child).devices
        assert [(d.uuid, d.index, d.nvml_index, d.bus_id) for d in devices] == [
            (H200[1], 0, 1, "00000000:3B:00.0"), (H200[0], 1, 0, "00000001:9A:00.0"),
        ]  # fmt: skip
        assert child.word() is None and child.process.wait(ANSWER_S) == 0  # asked once, it ends


def test_behind_switches_all_are_equally_near(tmp_path):
    fake = FakeNvml(tmp_path / "state", "h100x8", {f"gpu.5.link.{k}": "0,0000:05:00,2" for k in range(8)})
    with GpuChild("once", fake.env()) as child:
        devices = first_found(child).devices
    assert all(d.has_nvswitch for d in devices) and [d.minor for d in devices] == [4, 5, 6, 7, 0, 1, 2, 3]
    assert devices[0].links == (-1, 1800, 1800, 1800, 1800, 1000, 1800, 1800)
    assert {d.numa_node for d in devices[:4]} == {0} and {d.numa_node for d in devices[4:]} == {1}


def test_without_nvlink_pci_says_who_is_near(tmp_path):
    links = {f"gpu.{i}.link.{k}": None for i in range(8) for k in range(18)}
    fake = FakeNvml(tmp_path / "state", "h100x8", links | {"gpu.0.topo.1": 10, "gpu.0.topo.2": 30})
    with GpuChild("once", fake.env()) as child:
        assert first_found(child).devices[0].links == (-1, 7, 4, 2, 1, 1, 1, 1)


MIG: dict[str, Any] = {
    "gpu.0.mig_mode": 1,
    "gpu.0.mig.1": "MIG-11111111-0000-5000-8000-000000000001,7,0,1,1,18432,16,1g.18gb",
    "gpu.0.mig.4": "MIG-44444444-0000-5000-8000-000000000004,9,0,2,2,35840,32,2g.35gb",
}


def test_mig_instances_with_holes(tmp_path):
    minors = tmp_path / "mig-minors"
    minors.write_text(
        "config 1\nmonitor 2\ngpu1/gi7/access 66\ngpu1/gi7/ci0/access 67\ngpu1/gi9/access 84\ngpu0/gi9/access 9\n"
    )
    fake = FakeNvml(tmp_path / "state", changes=MIG)
    with GpuChild("once", fake.env(), Setup(mig_minors=str(minors))) as child:
        gpu, one, two, other = first_found(child).devices
    assert gpu.mig_enabled and not one.mig_enabled and gpu.files == ("/dev/nvidia1",)
    assert (one.uuid, one.parent, one.index, one.minor) == (MIG["gpu.0.mig.1"].split(",")[0], gpu.uuid, 0, 1)
    assert (one.type, one.profile, one.slices, one.memory_mb) == ("1g.18gb", "1g.18gb", 1, 18432)
    assert (two.gpu_instance, two.compute_instance, two.slices) == (9, 0, 2)
    assert one.files == ("/dev/nvidia1", "/dev/nvidia-caps/nvidia-cap66", "/dev/nvidia-caps/nvidia-cap67")
    assert two.files == ("/dev/nvidia1", "/dev/nvidia-caps/nvidia-cap84")
    assert (other.index, other.mig_enabled) == (1, False) and one.links == (8, -1, 8, 200)


def test_instances_that_come_and_go_make_a_new_inventory(fake, child):
    first_found(child)
    assert child.poll().found is None
    fake.put(MIG)
    found = child.poll().found
    assert [d.profile for d in found.devices] == ["", "1g.18gb", "2g.35gb", ""]
    assert child.poll().found is None
    fake.put({"gpu.0.mig.1": None})
    assert [d.profile for d in child.poll().found.devices] == ["", "2g.35gb", ""]


def test_uuids_that_change_places_are_the_same_gpus(fake, child):
    first_found(child)
    keys = ("uuid", "serial")
    swapped = {f"gpu.{1 - i}.{key}": fake.keys[f"gpu.{i}.{key}"] for i in range(2) for key in keys}
    fake.put(swapped | {"gpu.0.ecc_unc_vol": 5})
    polled = child.poll()
    assert [(d.uuid, d.index, d.minor) for d in polled.found.devices] == [(H200[1], 0, 1), (H200[0], 1, 0)]
    assert {s.uuid: s.ecc_volatile for s in polled.samples} == {H200[1]: 5, H200[0]: 0}


def test_fewer_than_before_is_seen(fake, child):
    first_found(child)
    fake.put({"sys.count": 1})
    polled = child.poll()
    assert [d.uuid for d in polled.found.devices] == [H200[0]] and [s.uuid for s in polled.samples] == [H200[0]]


@pytest.mark.parametrize(
    ("name", "short"),
    [("NVIDIA H200", "h200"), ("NVIDIA A100-SXM4-80GB", "a100"), ("Tesla V100-PCIE-16GB", "v100"), ("", "gpu"),
     ("NVIDIA GeForce RTX 3090", "rtx3090"), ("NVIDIA RTX A6000", "rtxa6000")],
)  # fmt: skip
def test_a_short_type_from_a_device_name(name, short):
    assert type_of(name) == short


@pytest.mark.parametrize("text", ["00000000:3B:00.0", "0000:3b:00", "0:3b:00.0"])
def test_bus_ids_are_written_in_several_ways(text):
    assert normal_bus_id(text) == "0000:3b:00.0"


# ---- how it is

SIGNALS: list[tuple[dict[str, object], dict[str, object]]] = [
    ({"field.230": 4}, {"recovery_action": 4}),
    ({"ecc_unc_vol": 3, "ecc_unc_agg": 7}, {"ecc_volatile": 3, "ecc_aggregate": 7}),
    ({"ecc_unc_vol.7": 2}, {"ecc_sram": 2}),
    ({"ecc": 0}, {"ecc_volatile": None, "ecc_aggregate": None}),
    ({"remap_unc": 2, "remap_pending": 1}, {"remap_uncorrectable": 2, "remap_pending": True, "remap_failure": False}),
    ({"remap_failure": 1}, {"remap_failure": True}),
    ({"retired.0": 3, "retired.1": 60, "retired_pending": 1}, {"retired_pages": 63, "retired_pending": True}),
    ({"field.52": 1, "field.59": 2, "field.38": 5, "field.45": 7}, {"nvlink_errors": 3, "nvlink_crc": 12}),
    ({"field.161": 4, "field.163": 9}, {"nvlink_errors": 4, "nvlink_crc": 9}),
    ({"link.1": "0,0000:19:00"}, {"nvlinks_down": 1}),
    ({"clocks_event": 0x48, "temp": 91}, {"throttle": 0x48, "temperature_c": 91, "slowdown_c": 89}),
    ({"fn.nvmlDeviceGetCurrentClocksEventReasons": 13, "clocks_event": 0x80}, {"throttle": 0x80}),
    ({"fn.nvmlDeviceGetTemperatureV": 13, "temp": 55}, {"temperature_c": 55}),
    ({"clock.1": 345, "clock.2": 1593}, {"sm_clock_mhz": 345, "memory_clock_mhz": 1593}),
    ({"fn.nvmlDeviceGetClockInfo": 3}, {"sm_clock_mhz": None, "memory_clock_mhz": None}),
    ({"pcie_gen": 3, "pcie_width": 8}, {"pcie": (3, 8, 5, 16)}),
    ({"ecc_pending": 0}, {"ecc_pending": True, "persistence": True}),
    ({"persistence": 0}, {"ecc_pending": False, "persistence": False}),
    ({"util_gpu": 97, "mem_used": 5 << 30, "energy_mj": 77}, {"util_percent": 97, "memory_used_kb": 5 << 20, "energy_mj": 77}),
    ({"energy_mj": None}, {"energy_mj": None}),
    ({"fn.nvmlDeviceGetMemoryInfo_v2": 25, "mem_used": 1024}, {"memory_used_kb": 1}),
    (
        {"proc.0": "77,2097152,C,50,10", "proc.1": "70,1048576,G,5,1", "proc.2": "77,1024,M,5,1"},
        {"processes": (Process(70, 1024), Process(77, 2048))},
    ),
]  # fmt: skip


@pytest.mark.parametrize(("put", "said"), SIGNALS, ids=[",".join(said) for _, said in SIGNALS])
def test_each_signal(fake, put, said):
    with GpuChild("poll", fake.env()) as child:
        before = child.word().samples
        fake.put({f"gpu.1.{key}": value for key, value in put.items()})
        other, sample = child.poll().samples
        if any(key.startswith(("fn.", "retired", "field.1", "field.5", "field.3")) for key in put):
            with GpuChild("poll", fake.env()) as fresh:  # what a GPU once could not say it is not asked again
                other, sample = fresh.word().samples
    assert {key: getattr(sample, key) for key in said} == said
    assert msgspec.structs.replace(other, at_us=0) == msgspec.structs.replace(before[0], at_us=0)


def test_what_a_gpu_cannot_say_is_not_asked_again(fake, child):
    first_found(child)
    begun = len(child.asked)
    child.poll()
    asked = [a.function for a in child.asked[begun:] if a.gpu == H200[0]]
    assert "nvmlDeviceGetRetiredPages" not in asked and "nvmlDeviceGetTemperatureV" in asked
    called = {function for function, _ in fake.calls()}
    assert fake.set_calls() == [] and "nvmlDeviceGetRetiredPages" in called


def test_what_a_divided_gpu_says_and_what_its_instances_say(fake, child):
    first_found(child)
    fake.put({"gpu.0.remap_unc": 4, "gpu.0.remap_pending": 1})
    child.poll()
    fake.put(MIG | {"gpu.0.proc.0": "77,1048576,C,5,1,9"})
    gpu, one, two, _ = child.poll().samples
    assert (one.processes, two.processes, gpu.processes) == ((), (Process(77, 1024),), (Process(77, 1024),))
    assert (gpu.remap_uncorrectable, gpu.remap_pending, gpu.util_percent) == (4, True, None)
    assert (one.uuid, one.memory_used_kb, one.recovery_action) == (MIG["gpu.0.mig.1"].split(",")[0], 0, None)
    assert two.error == 0


@pytest.mark.parametrize("code", [15, 16, 999])
def test_a_gpu_that_is_gone_does_not_stop_the_others(fake, child, code):
    first_found(child)
    fake.put({"gpu.0.error": code, "gpu.1.temp": 66})
    for _ in range(2):
        polled = child.poll()
        assert polled.found is None, "a GPU that does not answer stays in the inventory"
        assert [(s.uuid, s.error, s.temperature_c) for s in polled.samples] == [(H200[0], code, None), (H200[1], 0, 66)]
    fake.put({"gpu.0.error": None})
    assert [(s.error, s.temperature_c) for s in child.poll().samples] == [(0, 40), (0, 66)]


def test_one_odd_answer_is_no_failure(fake, child):
    first_found(child)
    fake.put({"gpu.0.fn.nvmlDeviceGetTemperatureV": 999})
    assert child.poll().samples[0].error == 0
    fake.put({"gpu.0.fn.nvmlDeviceGetTotalEnergyConsumption": 999, "gpu.0.fn.nvmlDeviceGetTotalEccErrors": 999})
    assert child.poll().samples[0].error == 999


def test_a_fresh_child_knows_a_lost_gpu_by_its_place(fake):
    with GpuChild("once", fake.env()) as child:
        known = first_found(child).devices
    fake.put({"gpu.1.lost": 1})
    with GpuChild("poll", fake.env(), Setup(poll_s=3600, known=known)) as child:
        polled = child.word()
        assert [d.uuid for d in polled.found.devices] == list(H200)
        assert [(s.uuid, s.error) for s in polled.samples] == [(H200[0], 0), (H200[1], 15)]
        begun = len(child.asked)
        child.poll()
        assert Asking("nvmlDeviceGetHandleByIndex", H200[1]) in child.asked[begun:]
    with GpuChild("poll", fake.env()) as child:  # nobody has told this one who was there
        polled = child.word()
        assert ([d.uuid for d in polled.found.devices], polled.found.nameless) == ([H200[0]], (15,))
        fake.put({"gpu.1.lost": None})
        assert [d.uuid for d in child.poll().found.devices] == list(H200)


def test_a_slow_gpu_is_asked_no_more_in_that_poll(fake):
    with GpuChild("poll", fake.env(), Setup(poll_s=3600, slow_s=0.05)) as child:
        first_found(child)
        fake.put({"gpu.0.delay_ms": 80})
        begun = len(child.asked)
        slow, other = child.poll().samples
        assert slow.slow and slow.error == 0 and other.temperature_c == 40 and not other.slow
        assert len([a for a in child.asked[begun:] if a.gpu == H200[0]]) == 1


def test_gpus_that_are_left_out_are_not_touched(fake):
    with GpuChild("once", fake.env()) as child:
        known = first_found(child).devices
    fake.put({"gpu.0.hang": 1})
    with GpuChild("poll", fake.env(), Setup(poll_s=3600, known=known, skip=(0,))) as child:
        polled = child.word()
        assert [d.uuid for d in polled.found.devices] == list(H200) and [s.uuid for s in polled.samples] == [H200[1]]
    fake.put({"gpu.0.hang": None, "gpu.1.hang": 1})
    with GpuChild("poll", fake.env(), Setup(poll_s=3600, known=known, only=0)) as child:
        polled = child.word()
        assert polled.found is None and [s.uuid for s in polled.samples] == [H200[0]]


# ---- processes, accounting


def test_utilisation_of_processes_where_it_is_asked(fake, child):
    first_found(child)
    fake.put({"gpu.0.proc.0": "77,1024,C,50,10", "gpu.1.proc.0": "78,1024,C,60,10"})
    assert [p.sm_percent for s in child.poll().samples for p in s.processes] == [None, None]
    child.send(Settle(3600, False, (H200[1],)))
    assert [p.sm_percent for s in child.poll().samples for p in s.processes] == [None, 60]
    assert fake.set_calls() == []


def test_accounting_is_switched_on_only_where_it_is_wanted(fake, child):
    first_found(child)
    fake.put({"gpu.0.acct.4242": f"63,21,{9 << 30},120000,1700000000000000,0"})
    wanted = {H200[0]: (4242, 4243), H200[1]: (4242,)}
    child.send(AskLifetimes(1, wanted))
    assert (child.word().records, child.word()) == ((), Answered(1))
    child.send(Settle(3600, True, ()))
    child.send(AskLifetimes(2, wanted))
    assert child.word().records == (Lifetime(H200[0], 4242, 63, 21, 9 << 20, 120000, 1700000000000000, False),)
    assert fake.set_calls() == [("nvmlDeviceSetAccountingMode", 0), ("nvmlDeviceSetAccountingMode", 1)]


def test_accounting_that_is_not_allowed_is_a_line_in_the_log(fake):
    fake.put({"sys.unprivileged": 1})
    with GpuChild("once", fake.env(), Setup(accounting=True)) as child:
        assert len(first_found(child).devices) == 2 and child.process.wait(ANSWER_S) == 0
        assert b"accounting mode stays off: NVML error 4" in child.process.stderr.read()


# ---- the driver as a whole


@pytest.mark.parametrize(
    ("put", "code", "why"),
    [({"fn.nvmlInitWithFlags": 18}, 18, "NVML: RM has detected an NVML/RM version mismatch."),
     ({"fn.nvmlInitWithFlags": 9}, 9, "NVML: Driver Not Loaded"),
     ({"fn.nvmlDeviceGetCount_v2": 999}, 999, "NVML: Unknown Error")],
)  # fmt: skip
def test_a_driver_that_does_not_work(tmp_path, put, code, why):
    fake = FakeNvml(tmp_path / "state", changes=put)
    for mode in ("poll", "once", "xids"):
        with GpuChild(mode, fake.env()) as child:
            found = child.word().found
            assert (found.devices, found.code, found.why) == ((), code, why) and child.word() is None
            assert child.process.wait(ANSWER_S) == 3


def test_no_library(tmp_path):
    with GpuChild("once", {"LD_LIBRARY_PATH": str(tmp_path)}) as child:
        assert first_found(child).code == 12


def test_a_machine_without_gpus(tmp_path):
    with GpuChild("once", FakeNvml(tmp_path / "state", changes={"sys.count": 0}).env()) as child:
        found = first_found(child)
        assert (found.devices, found.code, found.why) == ((), 0, "NVML knows no GPU")


def test_every_call_is_announced_before_it_is_made(fake, child):
    first_found(child)
    child.poll()
    fake.put({"hang.nvmlDeviceGetTemperatureV": 1})
    child.send(PollNow(9))
    with pytest.raises(AssertionError, match=f"nvmlDeviceGetTemperatureV.*{H200[0]}"):
        child.word(limit_s=0.5)
    assert fake.calls()[-1] == ("nvmlDeviceGetTemperatureV", 0)


def test_it_ends_with_its_parent(fake, child):
    first_found(child)
    child.process.stdin.close()
    assert child.process.wait(ANSWER_S) == 0


def test_it_imports_little():
    code = "import json, sys; from nodedaemon.gpu import probe; print(json.dumps(sorted(sys.modules)))"
    done = subprocess.run([sys.executable, "-s", "-c", code], capture_output=True, text=True, check=True, cwd=ROOT)
    assert not {"asyncio", "grpc", "google.protobuf", "psutil", "pynvml", "logging"} & set(json.loads(done.stdout))

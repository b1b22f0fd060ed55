"""The fake NVML is what pynvml expects: the same structures, the same symbols, the behaviour that others build on.

What the children do with it is tested beside them; here is what only tests use (setters, MIG, accounting), and that the
fake can be trusted: a state is replaced while others read it, and what setters change is there for every process.
"""

import ctypes
import re
import subprocess
import sys
import time
from pathlib import Path

import pynvml
import pytest
from clibrary import built, compiler
from fakenvml import HERE, FakeNvml, library
from patience import ANSWER_S

STRUCTS = {
    "pci_t": "nvmlPciInfo_t", "mem_t": "c_nvmlMemory_t", "mem2_t": "c_nvmlMemory_v2_t", "util_t": "c_nvmlUtilization_t",
    "proc_t": "c_nvmlProcessInfo_t", "putil_t": "c_nvmlProcessUtilizationSample_t", "acct_t": "c_nvmlAccountingStats_t",
    "event_t": "c_nvmlEventData_t", "field_t": "c_nvmlFieldValue_t", "attr_t": "c_nvmlDeviceAttributes",
    "gip2_t": "c_nvmlGpuInstanceProfileInfo_v2_t", "giinfo_t": "c_nvmlGpuInstanceInfo_t", "temp1_t": "c_nvmlTemperature_v1_t",
    "viol_t": "c_nvmlViolationTime_t", "hist_t": "c_nvmlRowRemapperHistogramValues",
}  # fmt: skip


@pytest.fixture
def fake(tmp_path):
    return FakeNvml(tmp_path / "state")


def run(fake, code):
    """Lines that a program prints which has the fake as `nv`, and H as its handles."""
    head = "import pynvml as nv; nv.nvmlInit(); H = [nv.nvmlDeviceGetHandleByIndex(i) for i in range(2)]\n"
    env = {"PATH": "/usr/bin:/bin", "PYTHONPATH": str(Path(pynvml.__file__).parent), **fake.env()}
    done = subprocess.run(
        [sys.executable, "-s", "-c", head + code], env=env, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def test_structures_are_as_large_as_pynvml_declares_them(tmp_path):
    prints = "".join(f'printf("{name} %zu\\n", sizeof({name}));' for name in STRUCTS)
    source = tmp_path / "sizes.c"
    source.write_text((HERE / "fakenvml.c").read_text() + f"\nint main(void) {{ {prints} return 0; }}\n")
    program = tmp_path / "sizes"
    subprocess.run([*compiler(), "-std=gnu11", "-w", "-pthread", "-o", str(program), str(source)], check=True)
    printed = subprocess.run([str(program)], capture_output=True, text=True, check=True).stdout
    sizes = {name: int(size) for name, size in map(str.split, printed.splitlines())}
    assert sizes == {name: ctypes.sizeof(getattr(pynvml, theirs)) for name, theirs in STRUCTS.items()}


def test_every_symbol_is_one_that_pynvml_asks_for():
    """Or one that a later or earlier pynvml does: those are listed."""
    source = (HERE / "fakenvml.c").read_text()
    have = set(re.findall(r"^API [\w ]+\*?(nvml\w+)\(", source, re.M)) | set(
        re.findall(r"^(?:GETU|GETLL|SYSSTR)\((nvml\w+)", source, re.M)
    )
    want = set(re.findall(r'_nvmlGetFunctionPointer\("(\w+)"\)', Path(pynvml.__file__).read_text()))
    assert len(have & want) > 90
    assert have - want <= {"nvmlInit_v2", "nvmlDeviceGetCudaComputeCapability_v2"}


def test_one_build_for_all(monkeypatch):
    built.cache_clear()
    first = library()
    changed_ns = first.stat().st_mtime_ns
    built.cache_clear()
    assert library() == first and first.stat().st_mtime_ns == changed_ns


def test_what_setters_change_is_there_for_every_process(fake):
    code = """
print(nv.nvmlDeviceGetAccountingMode(H[0]), nv.nvmlDeviceGetMigMode(H[1]))
nv.nvmlDeviceSetAccountingMode(H[0], 1); nv.nvmlDeviceSetMigMode(H[1], 1)
print(nv.nvmlDeviceGetAccountingMode(H[0]), nv.nvmlDeviceGetMigMode(H[1]))"""
    assert run(fake, code) == ["0 [0, 0]", "1 [1, 1]"]
    assert run(fake, code)[0] == "1 [1, 1]"
    assert fake.set_calls()[:2] == [("nvmlDeviceSetAccountingMode", 0), ("nvmlDeviceSetMigMode", 1)]
    fake.put({"gpu.0.accounting": 0})
    assert run(fake, code)[0] == "0 [1, 1]", "what a test puts counts again"


def test_a_gpu_in_use_is_not_divided(fake):
    fake.put({"gpu.0.proc.0": "77,1024,C,50,10"})
    code = "try: nv.nvmlDeviceSetMigMode(H[0], 1)\nexcept nv.NVMLError as e: print(e.value)"
    assert run(fake, code) == ["19"]
    fake.put({"gpu.0.proc.0": None, "sys.unprivileged": 1})
    assert run(fake, code) == ["4"]


def test_energy_grows_with_time_and_power(fake):
    code = """
import time
print(time.time_ns() // 10**6)
print(nv.nvmlDeviceGetTotalEnergyConsumption(H[0]))
print(time.time_ns() // 10**6)"""
    since_ms = time.time_ns() // 10**6 - 1000
    fake.put({"gpu.0.energy_mj": 7, "gpu.0.energy_t0_ms": since_ms, "gpu.0.power_mw": 650_000})
    before_ms, energy_mj, after_ms = map(int, run(fake, code))
    assert before_ms - since_ms >= 1000
    assert (before_ms - since_ms) * 650 <= energy_mj - 7 <= (after_ms - since_ms) * 650


def test_a_state_that_is_replaced_is_never_read_in_halves(fake):
    code = """
import threading
seen, stop = set(), False
def poll():
    while not stop: seen.add(nv.nvmlDeviceGetTemperature(H[0], 0))
threads = [threading.Thread(target=poll) for _ in range(3)]
for t in threads: t.start()
print("on", flush=True); input(); stop = True
for t in threads: t.join()
print(sorted(seen))"""
    head = "import pynvml as nv; nv.nvmlInit(); H = [nv.nvmlDeviceGetHandleByIndex(0)]\n"
    env = {"PYTHONPATH": str(Path(pynvml.__file__).parent), **fake.env()}
    del env["FAKE_NVML_LOG"]
    command = [sys.executable, "-s", "-c", head + code]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=env) as reader:
        assert reader.stdout.readline() == "on\n"
        for turn in range(200):
            fake.put({"gpu.0.temp": 77 if turn % 2 else 40})
        out, _ = reader.communicate("\n", timeout=ANSWER_S)
    assert set(map(int, out.strip(" []\n").split(","))) <= {40, 77}

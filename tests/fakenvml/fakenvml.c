/* fakenvml.c - a fake libnvidia-ml.so.1 for tests that must run the REAL pynvml code.
 *
 * Build:  cc -std=gnu11 -O1 -g -Wall -Wextra -Wno-unused-parameter -fPIC -shared -pthread \
 *            -Wl,-soname,libnvidia-ml.so.1 -Wl,-z,defs -o libnvidia-ml.so.1 fakenvml.c
 *
 * No NVIDIA header is used: every struct below is written from the public ABI that pynvml.py
 * itself declares in ctypes, so the library can be built anywhere with a C compiler.
 *
 * State: a text file named by $FAKE_NVML_STATE, one "key=value" per line, '#' comments.  It is
 * re-read whenever its (inode, mtime, size) changes, so a test replaces it atomically (write a
 * temporary file, os.rename) and every process that has the library loaded sees the change on
 * its next call.  $FAKE_NVML_LOG, if set, gets one line per call: "pid function device".
 *
 *   sys.driver= sys.nvml= sys.cuda=13000 sys.count=2
 *   gpu.I.<name|uuid|serial|busid|minor|mem_total|mem_used|...>=       (see the getters)
 *   gpu.I.lost=1            every call on that device -> 15 NVML_ERROR_GPU_IS_LOST
 *   gpu.I.error=16          every call on that device -> 16 NVML_ERROR_RESET_REQUIRED
 *   gpu.I.hang=1            every call on that device blocks until the key goes away
 *   gpu.I.delay_ms=45000    every call on that device takes that long first (dead GSP: 45 s/RPC)
 *   fn.<function>=N         that function returns N on every device (also nvmlInitWithFlags)
 *   gpu.I.fn.<function>=N   that function returns N on that device
 *   hang.<function>=1       that function blocks until the key goes away
 *   event.SEQ=gpu,type,data,gi,ci    delivered once per event set created before SEQ appeared
 *   gpu.I.proc.K=pid,bytes,C|G|M,sm%,mem%[,gi]     gpu.I.acct.PID=gpu%,mem%,maxbytes,time_ms,start_us,run
 *   gpu.I.field.ID=value    nvmlDeviceGetFieldValues    gpu.I.link.L=active,remote_busid[,2 for an NVSwitch]
 *   gpu.I.mig.K=uuid,gi,ci,gislices,cislices,mem_mb,sm,name
 *   gpu.I.giprofile.P=id,slices,instances,sm,mem_mb,name
 *   gpu.I.gi.N=profile id   a GPU instance (those of gpu.I.mig.K need none); set by nvmlDeviceCreateGpuInstance
 *   gpu.I.mig_needs_reset=1 MIG mode does not change at once
 *   gpu.I.refuse_profile.ID=N    creating a GPU instance of that profile returns N
 *
 * What setters change (MIG, accounting mode) outlives the process, as on a card: it is appended to "$FAKE_NVML_STATE.set",
 * which every process reads beside the state and which wins over it: "key=value", "-key" (hides the state's), "!key" (the
 * state's counts again; the tests' helper writes this when it puts such a key).
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

typedef int ret_t;
typedef unsigned int u32;
typedef unsigned long long u64;
enum { OK = 0, UNINIT = 1, EINVALARG = 2, NOTSUPP = 3, NOPERM = 4, NOTFOUND = 6, INSUFF = 7,
       NODRIVER = 9, TIMEOUT = 10, LOST = 15, VERMISMATCH = 25 };

/* ------------------------------------------------------------ ABI structs (as pynvml has them) */
typedef struct { char busIdLegacy[16]; u32 domain, bus, device, pciDeviceId, pciSubSystemId; char busId[32]; } pci_t;
typedef struct { u64 total, free, used; } mem_t;
typedef struct { u32 version; u64 total, reserved, free, used; } mem2_t;
typedef struct { u32 gpu, memory; } util_t;
typedef struct { u32 pid; u64 usedGpuMemory; u32 gi, ci; } proc_t;
typedef struct { u32 pid; u64 timeStamp; u32 sm, mem, enc, dec; } putil_t;
typedef struct { u32 gpuUtil, memUtil; u64 maxMem, time, startTime; u32 isRunning, reserved[5]; } acct_t;
typedef struct { void *device; u64 type, data; u32 gi, ci; } event_t;
typedef struct { u32 fieldId, scopeId; int64_t ts, latency; u32 valueType; ret_t ret; union { double d; u64 ull; u32 ui; } v; } field_t;
typedef struct { u32 sm, ce, dec, enc, jpeg, ofa, giSlices, ciSlices; u64 memMB; } attr_t;
typedef struct { u32 version, id, p2p, slices, instances, sm, ce, dec, enc, jpeg, ofa; u64 memMB; char name[96]; } gip2_t;
typedef struct { u32 start, size; } place_t;
typedef struct { void *device; u32 id, profileId; place_t place; } giinfo_t;
typedef struct { u32 version, sensor; int temp; } temp1_t;
typedef struct { u64 ref, viol; } viol_t;

/* ------------------------------------------------------------ state */
#define MAXKEY 8192
#define MAXGPU 32
#define MAXMIG 16
struct kv { char *k, *v; };
static struct kv kvs[MAXKEY];
static int nkv;
static char *blob;
static struct stat seen;
static struct kv over[512];          /* set by setters of any process; wins over the file */
static int nover;
static char *over_blob;
static struct stat over_seen;
static pthread_mutex_t mu = PTHREAD_MUTEX_INITIALIZER;
static int inited;

struct dev { u32 magic; int gpu, mig; };
static struct dev devs[MAXGPU][MAXMIG + 1];
struct evset { u32 magic; u64 last; u64 mask[MAXGPU]; };
struct gi { u32 magic; int gpu; u32 id, profile; place_t place; };
struct ci { u32 magic; struct gi *gi; u32 id; };
#define M_DEV 0x44455631
#define M_SET 0x53455431
#define M_GI 0x47493031
#define M_CI 0x43493031

static int cmp(const void *a, const void *b) { return strcmp(((const struct kv *)a)->k, ((const struct kv *)b)->k); }

static void put_over(char *k, char *v)
{
    int i = 0;
    while (i < nover && strcmp(over[i].k, k)) i++;
    if (i == nover && nover == 512) return;
    over[i] = (struct kv){ k, v };
    if (i == nover) nover++;
}

static void reload_over(const char *path) /* mu held */
{
    char name[4200]; struct stat st; int fd; ssize_t n, got = 0;
    snprintf(name, sizeof name, "%s.set", path);
    if ((fd = open(name, O_RDONLY | O_CLOEXEC)) < 0) { nover = 0; memset(&over_seen, 0, sizeof over_seen); return; }
    fstat(fd, &st);
    if (st.st_ino == over_seen.st_ino && st.st_size == over_seen.st_size) { close(fd); return; }   /* it only grows */
    free(over_blob);
    over_blob = malloc((size_t)st.st_size + 1);
    while (got < st.st_size && (n = read(fd, over_blob + got, (size_t)(st.st_size - got))) > 0) got += n;
    close(fd);
    over_blob[got] = 0;
    nover = 0;
    char *save = NULL;
    for (char *l = strtok_r(over_blob, "\n", &save); l; l = strtok_r(NULL, "\n", &save)) {
        char *eq = strchr(l, '=');
        if (*l == '-') put_over(l + 1, NULL);
        else if (*l == '!') { for (int i = 0; i < nover; i++) if (!strcmp(over[i].k, l + 1)) { over[i] = over[--nover]; break; } }
        else if (eq) { *eq = 0; put_over(l, eq + 1); }
    }
    over_seen = st;
}

static int reload(void)              /* mu held; 0 when there is a state file */
{
    const char *path = getenv("FAKE_NVML_STATE");
    if (path) reload_over(path);
    struct stat st;
    int fd;
    ssize_t n, got = 0;
    if (!path || stat(path, &st)) { nkv = 0; memset(&seen, 0, sizeof seen); return -1; }
    if (st.st_ino == seen.st_ino && st.st_size == seen.st_size && st.st_mtim.tv_sec == seen.st_mtim.tv_sec &&
        st.st_mtim.tv_nsec == seen.st_mtim.tv_nsec) return 0;
    if ((fd = open(path, O_RDONLY | O_CLOEXEC)) < 0) return -1;
    fstat(fd, &st);
    free(blob);
    blob = malloc((size_t)st.st_size + 1);
    while (got < st.st_size && (n = read(fd, blob + got, (size_t)(st.st_size - got))) > 0) got += n;
    close(fd);
    blob[got] = 0;
    nkv = 0;
    char *save = NULL;
    for (char *l = strtok_r(blob, "\n", &save); l && nkv < MAXKEY; l = strtok_r(NULL, "\n", &save)) {
        char *eq = strchr(l, '=');
        if (*l == '#' || !eq) continue;
        *eq = 0;
        kvs[nkv].k = l; kvs[nkv++].v = eq + 1;
    }
    qsort(kvs, (size_t)nkv, sizeof *kvs, cmp);
    seen = st;
    return 0;
}

static const char *get(const char *k) /* mu held */
{
    for (int i = nover - 1; i >= 0; i--) if (!strcmp(over[i].k, k)) return over[i].v;
    struct kv key = { (char *)(uintptr_t)k, NULL }, *r = bsearch(&key, kvs, (size_t)nkv, sizeof *kvs, cmp);
    return r ? r->v : NULL;
}

static void set_over(const char *k, const char *v) /* mu held; v NULL deletes (hides the file's) */
{
    char name[4200], line[512];
    snprintf(name, sizeof name, "%s.set", getenv("FAKE_NVML_STATE"));
    int n = v ? snprintf(line, sizeof line, "%s=%s\n", k, v) : snprintf(line, sizeof line, "-%s\n", k);
    int fd = open(name, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0644);
    if (fd < 0) return;
    if (write(fd, line, (size_t)n) == n) { close(fd); reload(); return; }
    close(fd);
}

static u64 num(u64 dflt, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
#include <stdarg.h>
static u64 num(u64 dflt, const char *fmt, ...)
{
    char k[160]; va_list ap; u64 r = dflt;
    va_start(ap, fmt); vsnprintf(k, sizeof k, fmt, ap); va_end(ap);
    pthread_mutex_lock(&mu);
    const char *v = get(k);
    if (v && *v) r = strtoull(v, NULL, 0);
    pthread_mutex_unlock(&mu);
    return r;
}
static int str(char *out, size_t n, const char *dflt, const char *fmt, ...) __attribute__((format(printf, 4, 5)));
static int str(char *out, size_t n, const char *dflt, const char *fmt, ...)
{
    char k[160]; va_list ap; int found = 0;
    va_start(ap, fmt); vsnprintf(k, sizeof k, fmt, ap); va_end(ap);
    pthread_mutex_lock(&mu);
    const char *v = get(k);
    if (v) found = 1;
    snprintf(out, n, "%s", v ? v : dflt ? dflt : "");
    pthread_mutex_unlock(&mu);
    return found;
}

static void logcall(const char *fn, int gpu)
{
    const char *p = getenv("FAKE_NVML_LOG");
    if (!p) return;
    int fd = open(p, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0644);
    if (fd < 0) return;
    dprintf(fd, "%d %s %d\n", (int)getpid(), fn, gpu);
    close(fd);
}

static __thread int quiet;          /* set inside nvmlEventSetWait's own polling */

static void nap(long ms) { struct timespec t = { ms / 1000, (ms % 1000) * 1000000L }; nanosleep(&t, NULL); }

/* Every entry point passes here: state reload, hangs, delays, injected codes. */
static ret_t gate(const char *fn, const void *h, int needs_dev, struct dev **out)
{
    struct dev *d = (struct dev *)(uintptr_t)h;
    if (needs_dev) {
        if (!d || (char *)d < (char *)devs || (char *)d >= (char *)(devs + MAXGPU) || d->magic != M_DEV) return EINVALARG;
        if (out) *out = d;
    }
    if (!quiet) logcall(fn, needs_dev ? d->gpu : -1);
    if (!inited && strncmp(fn, "nvmlInit", 8)) return UNINIT;
    for (int delayed = 0;;) {
        pthread_mutex_lock(&mu); reload(); pthread_mutex_unlock(&mu);
        u64 hang = num(0, "hang.%s", fn);
        if (needs_dev) hang |= num(0, "gpu.%d.hang", d->gpu);
        if (hang) { nap(20); continue; }
        if (needs_dev && !delayed) {
            u64 ms = num(0, "gpu.%d.delay_ms", d->gpu);
            if (ms) { nap((long)ms); delayed = 1; continue; }
        }
        break;
    }
    u64 rc = num(0, "fn.%s", fn);
    if (!rc && needs_dev) {
        rc = num(0, "gpu.%d.fn.%s", d->gpu, fn);
        if (!rc && num(0, "gpu.%d.lost", d->gpu)) rc = LOST;
        if (!rc) rc = num(0, "gpu.%d.error", d->gpu);
    }
    return (ret_t)rc;
}
#define ENTER(h) struct dev *d; { ret_t rc_ = gate(__func__, (h), 1, &d); if (rc_) return rc_; } int g = d->gpu; (void)g
#define ENTER_SYS() { ret_t rc_ = gate(__func__, NULL, 0, NULL); if (rc_) return rc_; }
#define API __attribute__((visibility("default")))
#define UNSUPP_UNLESS(key) { char t_[8]; if (!str(t_, sizeof t_, NULL, "gpu.%d." key, g)) return NOTSUPP; }

static ret_t put(char *out, u32 n, const char *s) { if (!out) return EINVALARG; if (strlen(s) + 1 > n) return INSUFF; strcpy(out, s); return OK; }

/* ------------------------------------------------------------ library and system */
API ret_t nvmlInitWithFlags(u32 flags)
{
    pthread_mutex_lock(&mu); int r = reload(); pthread_mutex_unlock(&mu);
    if (r) return NODRIVER;
    ret_t rc = gate(__func__, NULL, 0, NULL);
    if (rc) return rc;
    for (int i = 0; i < MAXGPU; i++) for (int m = 0; m <= MAXMIG; m++) devs[i][m] = (struct dev){ M_DEV, i, m - 1 };
    __atomic_add_fetch(&inited, 1, __ATOMIC_SEQ_CST);
    return OK;
}
API ret_t nvmlInit_v2(void) { return nvmlInitWithFlags(0); }
API ret_t nvmlShutdown(void) { if (!inited) return UNINIT; __atomic_sub_fetch(&inited, 1, __ATOMIC_SEQ_CST); return OK; }
API const char *nvmlErrorString(ret_t r)
{
    switch (r) { case 0: return "Success"; case 1: return "Uninitialized"; case 2: return "Invalid Argument";
    case 3: return "Not Supported"; case 4: return "Insufficient Permissions"; case 6: return "Not Found";
    case 7: return "Insufficient Size"; case 9: return "Driver Not Loaded"; case 10: return "Timeout";
    case 15: return "GPU is lost"; case 16: return "GPU requires reset"; case 18: return "RM has detected an NVML/RM version mismatch.";
    case 19: return "In use by another client"; case 23: return "Insufficient Resources";
    case 999: return "Unknown Error"; default: return "fake error"; }
}
#define SYSSTR(fn, key, dflt) API ret_t fn(char *o, u32 n) { ENTER_SYS(); char t[128]; str(t, sizeof t, dflt, key); return put(o, n, t); }
SYSSTR(nvmlSystemGetDriverVersion, "sys.driver", "580.95.05")
SYSSTR(nvmlSystemGetNVMLVersion, "sys.nvml", "13.580.95.05")
API ret_t nvmlSystemGetCudaDriverVersion(int *v) { ENTER_SYS(); *v = (int)num(13000, "sys.cuda"); return OK; }
API ret_t nvmlSystemGetCudaDriverVersion_v2(int *v) { return nvmlSystemGetCudaDriverVersion(v); }
API ret_t nvmlSystemGetProcessName(u32 pid, char *o, u32 n)
{
    ENTER_SYS();
    char p[64], b[256] = ""; snprintf(p, sizeof p, "/proc/%u/comm", pid);
    int fd = open(p, O_RDONLY | O_CLOEXEC);
    if (fd < 0) return NOTFOUND;
    ssize_t r = read(fd, b, sizeof b - 1); close(fd);
    if (r > 0) b[strcspn(b, "\n")] = 0;
    return put(o, n, b);
}

/* ------------------------------------------------------------ handles and identity */
API ret_t nvmlDeviceGetCount_v2(u32 *n) { ENTER_SYS(); *n = (u32)num(0, "sys.count"); return OK; }
static ret_t handle_of(const char *fn, int g, int mig, void **out)
{
    ret_t rc = gate(fn, &devs[g][mig + 1], 1, NULL);
    if (rc) return rc;
    *out = &devs[g][mig + 1];
    return OK;
}
API ret_t nvmlDeviceGetHandleByIndex_v2(u32 i, void **out)
{
    ENTER_SYS();
    if (i >= num(0, "sys.count") || i >= MAXGPU || !out) return EINVALARG;
    return handle_of(__func__, (int)i, -1, out);
}
static int mig_field(int g, int k, int f, char *out, size_t n) /* f-th comma field of gpu.g.mig.k */
{
    char v[256], *s = v, *t;
    if (!str(v, sizeof v, NULL, "gpu.%d.mig.%d", g, k) || !*v) return 0;
    for (int i = 0; (t = strsep(&s, ",")); i++) if (i == f) { snprintf(out, n, "%s", t); return 1; }
    return 0;
}
API ret_t nvmlDeviceGetHandleByUUID(const char *u, void **out)
{
    ENTER_SYS();
    char t[128];
    int n = (int)num(0, "sys.count");
    for (int g = 0; g < n && g < MAXGPU; g++) {
        str(t, sizeof t, "", "gpu.%d.uuid", g);
        if (!strcmp(t, u)) return handle_of(__func__, g, -1, out);
        for (int k = 0; k < MAXMIG; k++)
            if (mig_field(g, k, 0, t, sizeof t) && !strcmp(t, u)) return handle_of(__func__, g, k, out);
    }
    return NOTFOUND;
}
static void parse_bus(int g, u32 *dom, u32 *bus, u32 *dv)
{
    char t[64]; *dom = 0; *bus = (u32)g + 1; *dv = 0;
    if (str(t, sizeof t, NULL, "gpu.%d.busid", g)) sscanf(t, "%x:%x:%x", dom, bus, dv);
}
API ret_t nvmlDeviceGetHandleByPciBusId_v2(const char *b, void **out)
{
    ENTER_SYS();
    u32 a, c, e, x, y, z; int n = (int)num(0, "sys.count");
    if (sscanf(b, "%x:%x:%x", &a, &c, &e) != 3) return EINVALARG;
    for (int g = 0; g < n && g < MAXGPU; g++) { parse_bus(g, &x, &y, &z); if (a == x && c == y && e == z) return handle_of(__func__, g, -1, out); }
    return NOTFOUND;
}
static void fill_pci(int g, pci_t *p)
{
    memset(p, 0, sizeof *p);
    parse_bus(g, &p->domain, &p->bus, &p->device);
    p->pciDeviceId = (u32)num(0x233510de, "gpu.%d.pci_device_id", g);
    snprintf(p->busId, sizeof p->busId, "%08X:%02X:%02X.0", p->domain, p->bus, p->device);   /* 8-digit domain: not sysfs form */
    snprintf(p->busIdLegacy, sizeof p->busIdLegacy, "%04X:%02X:%02X.0", p->domain & 0xffff, p->bus & 0xff, p->device & 0xff);
}
API ret_t nvmlDeviceGetPciInfo_v3(void *h, pci_t *p) { ENTER(h); fill_pci(g, p); return OK; }
API ret_t nvmlDeviceGetUUID(void *h, char *o, u32 n)
{
    ENTER(h); char t[128];
    if (d->mig >= 0) { if (!mig_field(g, d->mig, 0, t, sizeof t)) return NOTFOUND; }
    else str(t, sizeof t, "GPU-00000000-0000-0000-0000-000000000000", "gpu.%d.uuid", g);
    return put(o, n, t);
}
API ret_t nvmlDeviceGetName(void *h, char *o, u32 n)
{
    ENTER(h); char t[128], m[64];
    str(t, sizeof t, "NVIDIA H200", "gpu.%d.name", g);
    if (d->mig >= 0 && mig_field(g, d->mig, 7, m, sizeof m)) { strncat(t, " MIG ", sizeof t - strlen(t) - 1); strncat(t, m, sizeof t - strlen(t) - 1); }
    return put(o, n, t);
}
API ret_t nvmlDeviceGetSerial(void *h, char *o, u32 n) { ENTER(h); char t[64]; str(t, sizeof t, "1650000000000", "gpu.%d.serial", g); return put(o, n, t); }
API ret_t nvmlDeviceGetVbiosVersion(void *h, char *o, u32 n) { ENTER(h); char t[64]; str(t, sizeof t, "96.00.CF.00.01", "gpu.%d.vbios", g); return put(o, n, t); }
#define GETU(fn, key, dflt) API ret_t fn(void *h, u32 *o) { ENTER(h); *o = (u32)num((dflt), "gpu.%d." key, g); return OK; }
#define GETLL(fn, key, dflt) API ret_t fn(void *h, u64 *o) { ENTER(h); *o = num((dflt), "gpu.%d." key, g); return OK; }
GETU(nvmlDeviceGetMinorNumber, "minor", (u64)g)
API ret_t nvmlDeviceGetIndex(void *h, u32 *o) { ENTER(h); *o = (u32)g; return OK; }
GETU(nvmlDeviceGetPersistenceMode, "persistence", 1)
GETU(nvmlDeviceGetComputeMode, "compute_mode", 0)
GETU(nvmlDeviceGetArchitecture, "arch", 9)
GETU(nvmlDeviceGetCurrPcieLinkGeneration, "pcie_gen", 5)
GETU(nvmlDeviceGetMaxPcieLinkGeneration, "pcie_gen_max", 5)
GETU(nvmlDeviceGetCurrPcieLinkWidth, "pcie_width", 16)
GETU(nvmlDeviceGetMaxPcieLinkWidth, "pcie_width_max", 16)
GETU(nvmlDeviceGetPcieReplayCounter, "pcie_replay", 0)
API ret_t nvmlDeviceGetCudaComputeCapability(void *h, int *a, int *b) { ENTER(h); *a = (int)num(9, "gpu.%d.cc_major", g); *b = (int)num(0, "gpu.%d.cc_minor", g); return OK; }
API ret_t nvmlDeviceGetNumaNodeId(void *h, int *o) { ENTER(h); *o = (int)num(0, "gpu.%d.numa", g); return OK; }
static ret_t bits(int g, const char *key, u64 dflt, u32 n, unsigned long *set)
{
    char k[64]; snprintf(k, sizeof k, "gpu.%d.%s", g, key);
    memset(set, 0, n * sizeof *set);
    if (n) set[0] = num(dflt, "%s", k);
    return OK;
}
API ret_t nvmlDeviceGetCpuAffinity(void *h, u32 n, unsigned long *s) { ENTER(h); return bits(g, "cpus", 0xff, n, s); }
API ret_t nvmlDeviceGetCpuAffinityWithinScope(void *h, u32 n, unsigned long *s, u32 scope) { ENTER(h); return bits(g, "cpus", 0xff, n, s); }
API ret_t nvmlDeviceGetMemoryAffinity(void *h, u32 n, unsigned long *s, u32 scope) { ENTER(h); return bits(g, "mems", 1, n, s); }

/* ------------------------------------------------------------ memory, load, power */
static void fill_mem(struct dev *d, u64 *tot, u64 *used)
{
    char t[32];
    *tot = num(143771ULL << 20, "gpu.%d.mem_total", d->gpu); *used = num(0, "gpu.%d.mem_used", d->gpu);
    if (d->mig >= 0 && mig_field(d->gpu, d->mig, 5, t, sizeof t)) *tot = strtoull(t, NULL, 0) << 20;
}
API ret_t nvmlDeviceGetMemoryInfo(void *h, mem_t *m) { ENTER(h); fill_mem(d, &m->total, &m->used); m->free = m->total - m->used; return OK; }
API ret_t nvmlDeviceGetMemoryInfo_v2(void *h, mem2_t *m)
{
    ENTER(h);
    if (m->version != 0x02000028) return VERMISMATCH;
    fill_mem(d, &m->total, &m->used); m->reserved = num(0, "gpu.%d.mem_reserved", g); m->free = m->total - m->used - m->reserved; return OK;
}
API ret_t nvmlDeviceGetUtilizationRates(void *h, util_t *u)
{
    ENTER(h);
    if (d->mig >= 0 || num(0, "gpu.%d.mig_mode", g)) return NOTSUPP;      /* as on a MIG-enabled GPU */
    u->gpu = (u32)num(0, "gpu.%d.util_gpu", g); u->memory = (u32)num(0, "gpu.%d.util_mem", g); return OK;
}
static u64 energy(int g)
{
    u64 e = num(0, "gpu.%d.energy_mj", g), t0 = num(0, "gpu.%d.energy_t0_ms", g);
    if (t0) { struct timespec t; clock_gettime(CLOCK_REALTIME, &t); u64 now = (u64)t.tv_sec * 1000 + (u64)t.tv_nsec / 1000000; if (now > t0) e += num(100000, "gpu.%d.power_mw", g) * (now - t0) / 1000; }
    return e;
}
API ret_t nvmlDeviceGetTotalEnergyConsumption(void *h, u64 *o) { ENTER(h); UNSUPP_UNLESS("energy_mj"); *o = energy(g); return OK; }
GETU(nvmlDeviceGetPowerUsage, "power_mw", 100000)
GETU(nvmlDeviceGetEnforcedPowerLimit, "power_limit_mw", 700000)
GETU(nvmlDeviceGetPowerManagementLimit, "power_limit_mw", 700000)
API ret_t nvmlDeviceGetTemperature(void *h, u32 sensor, u32 *o) { ENTER(h); *o = (u32)num(40, "gpu.%d.temp", g); return OK; }
API ret_t nvmlDeviceGetTemperatureV(void *h, temp1_t *t) { ENTER(h); if (t->version != 0x0100000C) return VERMISMATCH; t->temp = (int)num(40, "gpu.%d.temp", g); return OK; }
API ret_t nvmlDeviceGetTemperatureThreshold(void *h, u32 which, u32 *o) { ENTER(h); *o = (u32)num(which == 0 ? 92 : 89, "gpu.%d.temp_threshold.%u", g, which); return OK; }
API ret_t nvmlDeviceGetClockInfo(void *h, u32 type, u32 *o) { ENTER(h); *o = (u32)num(1980, "gpu.%d.clock.%u", g, type); return OK; }
API ret_t nvmlDeviceGetMaxClockInfo(void *h, u32 type, u32 *o) { ENTER(h); *o = (u32)num(1980, "gpu.%d.clock_max.%u", g, type); return OK; }
GETLL(nvmlDeviceGetCurrentClocksEventReasons, "clocks_event", 1)
API ret_t nvmlDeviceGetCurrentClocksThrottleReasons(void *h, u64 *o) { ENTER(h); *o = num(1, "gpu.%d.clocks_event", g); return OK; }
GETLL(nvmlDeviceGetSupportedClocksEventReasons, "clocks_event_supported", 0x1ff)
API ret_t nvmlDeviceGetViolationStatus(void *h, u32 policy, viol_t *v) { ENTER(h); v->ref = num(0, "gpu.%d.viol_ref", g); v->viol = num(0, "gpu.%d.viol.%u", g, policy); return OK; }

/* ------------------------------------------------------------ memory errors */
API ret_t nvmlDeviceGetEccMode(void *h, u32 *c, u32 *p) { ENTER(h); *c = (u32)num(1, "gpu.%d.ecc", g); *p = (u32)num(*c, "gpu.%d.ecc_pending", g); return OK; }
/* errorType 0 corrected 1 uncorrected; counterType 0 volatile 1 aggregate */
API ret_t nvmlDeviceGetTotalEccErrors(void *h, u32 et, u32 ct, u64 *o)
{
    ENTER(h);
    if (!num(1, "gpu.%d.ecc", g)) return NOTSUPP;
    *o = num(0, "gpu.%d.ecc_%s_%s", g, et ? "unc" : "cor", ct ? "agg" : "vol"); return OK;
}
API ret_t nvmlDeviceGetMemoryErrorCounter(void *h, u32 et, u32 ct, u32 loc, u64 *o)
{
    ENTER(h); *o = num(0, "gpu.%d.ecc_%s_%s.%u", g, et ? "unc" : "cor", ct ? "agg" : "vol", loc); return OK;
}
API ret_t nvmlDeviceGetRemappedRows(void *h, u32 *c, u32 *u, u32 *p, u32 *f)
{
    ENTER(h);
    if (num(0, "gpu.%d.mig_mode", g)) return NOTSUPP;                     /* documented: not with MIG enabled */
    *c = (u32)num(0, "gpu.%d.remap_cor", g); *u = (u32)num(0, "gpu.%d.remap_unc", g);
    *p = (u32)num(0, "gpu.%d.remap_pending", g); *f = (u32)num(0, "gpu.%d.remap_failure", g); return OK;
}
typedef struct { u32 max, high, partial, low, none; } hist_t;
API ret_t nvmlDeviceGetRowRemapperHistogram(void *h, hist_t *o) { ENTER(h); *o = (hist_t){ (u32)num(640, "gpu.%d.remap_max", g), 0, 0, (u32)num(0, "gpu.%d.remap_low", g), (u32)num(0, "gpu.%d.remap_none", g) }; return OK; }
API ret_t nvmlDeviceGetRetiredPages(void *h, u32 cause, u32 *n, u64 *a)
{
    ENTER(h); UNSUPP_UNLESS("retired.0");
    u32 have = (u32)num(0, "gpu.%d.retired.%u", g, cause), room = *n;
    *n = have;
    if (!a || room < have) return have ? INSUFF : OK;
    for (u32 i = 0; i < have; i++) a[i] = 0x1000ULL * (i + 1);
    return OK;
}
API ret_t nvmlDeviceGetRetiredPagesPendingStatus(void *h, u32 *o) { ENTER(h); UNSUPP_UNLESS("retired.0"); *o = (u32)num(0, "gpu.%d.retired_pending", g); return OK; }
API ret_t nvmlDeviceGetFieldValues(void *h, int n, field_t *f)
{
    ENTER(h); char t[64]; struct timespec ts; clock_gettime(CLOCK_REALTIME, &ts);
    for (int i = 0; i < n; i++) {
        f[i].ts = (int64_t)ts.tv_sec * 1000000 + ts.tv_nsec / 1000; f[i].latency = 1;
        int ok = f[i].scopeId ? str(t, sizeof t, NULL, "gpu.%d.field.%u.%u", g, f[i].fieldId, f[i].scopeId) : 0;
        if (!ok) ok = str(t, sizeof t, NULL, "gpu.%d.field.%u", g, f[i].fieldId);
        f[i].valueType = 3; f[i].ret = ok ? OK : NOTSUPP; f[i].v.ull = ok ? strtoull(t, NULL, 0) : 0;
    }
    return OK;
}

/* ------------------------------------------------------------ links and topology */
static int link_field(int g, u32 l, int f, char *o, size_t n)
{
    char v[96], *s = v, *t;
    if (!str(v, sizeof v, NULL, "gpu.%d.link.%u", g, l)) return 0;
    for (int i = 0; (t = strsep(&s, ",")); i++) if (i == f) { snprintf(o, n, "%s", t); return 1; }
    return 0;
}
API ret_t nvmlDeviceGetNvLinkState(void *h, u32 l, u32 *o) { ENTER(h); char t[48]; if (!link_field(g, l, 0, t, sizeof t)) return l < 18 ? NOTSUPP : EINVALARG; *o = (u32)atoi(t); return OK; }
API ret_t nvmlDeviceGetNvLinkVersion(void *h, u32 l, u32 *o) { ENTER(h); *o = 4; return OK; }
API ret_t nvmlDeviceGetNvLinkErrorCounter(void *h, u32 l, u32 c, u64 *o) { ENTER(h); *o = num(0, "gpu.%d.link_err.%u.%u", g, l, c); return OK; }
API ret_t nvmlDeviceGetNvLinkRemotePciInfo_v2(void *h, u32 l, pci_t *p)
{
    ENTER(h); char t[48]; memset(p, 0, sizeof *p);
    if (!link_field(g, l, 1, t, sizeof t)) return NOTSUPP;
    sscanf(t, "%x:%x:%x", &p->domain, &p->bus, &p->device);
    snprintf(p->busId, sizeof p->busId, "%08X:%02X:%02X.0", p->domain, p->bus, p->device); return OK;
}
API ret_t nvmlDeviceGetNvLinkRemoteDeviceType(void *h, u32 l, u32 *o) /* 0 GPU, 2 NVSwitch: the third part of link.L */
{
    ENTER(h); char t[48];
    if (!link_field(g, l, 0, t, sizeof t)) return l < 18 ? NOTSUPP : EINVALARG;
    *o = link_field(g, l, 2, t, sizeof t) ? (u32)atoi(t) : 0; return OK;
}
API ret_t nvmlDeviceGetTopologyCommonAncestor(void *h, void *h2, u32 *o) { ENTER(h); struct dev *e = h2; *o = (u32)num(e->gpu / 4 == g / 4 ? 40 : 50, "gpu.%d.topo.%d", g, e->gpu); return OK; }
API ret_t nvmlDeviceGetP2PStatus(void *h, void *h2, u32 idx, u32 *o) { ENTER(h); struct dev *e = h2; *o = (u32)num(0, "gpu.%d.p2p.%d", g, e->gpu); return OK; }

/* ------------------------------------------------------------ events */
static u64 max_seq(void) { u64 m = 0; pthread_mutex_lock(&mu); reload(); for (int i = 0; i < nkv; i++) if (!strncmp(kvs[i].k, "event.", 6)) { u64 s = strtoull(kvs[i].k + 6, NULL, 10); if (s > m) m = s; } pthread_mutex_unlock(&mu); return m; }
API ret_t nvmlEventSetCreate(void **out) { ENTER_SYS(); struct evset *s = calloc(1, sizeof *s); s->magic = M_SET; s->last = max_seq(); *out = s; return OK; }
API ret_t nvmlEventSetFree(void *p) { struct evset *s = p; if (!s || s->magic != M_SET) return EINVALARG; s->magic = 0; free(s); return OK; }
API ret_t nvmlDeviceGetSupportedEventTypes(void *h, u64 *o) { ENTER(h); *o = num(0x1|0x2|0x4|0x8|0x10, "gpu.%d.events_supported", g); return OK; }
API ret_t nvmlDeviceRegisterEvents(void *h, u64 types, void *p)
{
    ENTER(h); struct evset *s = p;
    if (!s || s->magic != M_SET || d->mig >= 0) return EINVALARG;
    if (types & ~num(0x1f, "gpu.%d.events_supported", g)) return NOTSUPP;
    s->mask[g] |= types; return OK;
}
API ret_t nvmlEventSetWait_v2(void *p, event_t *e, u32 ms)
{
    struct evset *s = p; struct timespec t0, t;
    if (!s || s->magic != M_SET || !e) return EINVALARG;
    clock_gettime(CLOCK_MONOTONIC, &t0);
    for (;;) {
        { ret_t rc = gate(__func__, NULL, 0, NULL); if (rc) { quiet = 0; return rc; } }
        quiet = 1;
        u64 best = ~0ULL; char line[128] = "";
        pthread_mutex_lock(&mu);
        for (int i = 0; i < nkv; i++) if (!strncmp(kvs[i].k, "event.", 6)) {
            u64 q = strtoull(kvs[i].k + 6, NULL, 10), ty; int g;
            if (q > s->last && q < best && sscanf(kvs[i].v, "%d,%lli", &g, (long long *)&ty) == 2 && g >= 0 && g < MAXGPU && (s->mask[g] & ty)) { best = q; snprintf(line, sizeof line, "%s", kvs[i].v); }
        }
        pthread_mutex_unlock(&mu);
        if (best != ~0ULL) {
            int g; long long ty, da, gi = -1, ci = -1;
            sscanf(line, "%d,%lli,%lli,%lli,%lli", &g, &ty, &da, &gi, &ci);
            s->last = best; quiet = 0;
            *e = (event_t){ &devs[g][0], (u64)ty, (u64)da, (u32)gi, (u32)ci };
            return OK;
        }
        clock_gettime(CLOCK_MONOTONIC, &t);
        if ((t.tv_sec - t0.tv_sec) * 1000 + (t.tv_nsec - t0.tv_nsec) / 1000000 >= (long)ms) { quiet = 0; return TIMEOUT; }
        nap(10);
    }
}

/* ------------------------------------------------------------ processes and accounting */
static int procs_of(int g, int gi, char kind, proc_t *p, putil_t *pu, u32 room) /* gi -1: of all instances */
{
    int n = 0;
    for (int k = 0; k < 256; k++) {
        char v[128], ty; u32 pid, sm = 0, me = 0; u64 by; int in = -1;
        if (!str(v, sizeof v, NULL, "gpu.%d.proc.%d", g, k) || sscanf(v, "%u,%llu,%c,%u,%u,%d", &pid, &by, &ty, &sm, &me, &in) < 3) continue;
        if (gi >= 0 && in >= 0 && in != gi) continue;
        if (kind != '*' && ty != kind) continue;
        if (p && (u32)n < room) p[n] = (proc_t){ pid, by, (u32)in, ~0u };
        if (pu && (u32)n < room) { struct timespec t; clock_gettime(CLOCK_REALTIME, &t); pu[n] = (putil_t){ pid, (u64)t.tv_sec * 1000000 + (u64)t.tv_nsec / 1000, sm, me, 0, 0 }; }
        n++;
    }
    return n;
}
static int procs(int g, char kind, proc_t *p, putil_t *pu, u32 room) { return procs_of(g, -1, kind, p, pu, room); }
static ret_t plist(struct dev *d, char kind, u32 *n, proc_t *p)
{
    char t[16]; int gi = -1; u32 room = *n;
    if (d->mig >= 0 && mig_field(d->gpu, d->mig, 1, t, sizeof t)) gi = atoi(t);
    *n = (u32)procs_of(d->gpu, gi, kind, p, NULL, p ? room : 0);
    return !*n ? OK : (!p || room < *n) ? INSUFF : OK;
}
API ret_t nvmlDeviceGetComputeRunningProcesses_v3(void *h, u32 *n, proc_t *p) { ENTER(h); return plist(d, 'C', n, p); }
API ret_t nvmlDeviceGetGraphicsRunningProcesses_v3(void *h, u32 *n, proc_t *p) { ENTER(h); return plist(d, 'G', n, p); }
API ret_t nvmlDeviceGetMPSComputeRunningProcesses_v3(void *h, u32 *n, proc_t *p) { ENTER(h); return plist(d, 'M', n, p); }
API ret_t nvmlDeviceGetProcessUtilization(void *h, putil_t *p, u32 *n, u64 since)
{
    ENTER(h);
    if (num(0, "gpu.%d.mig_mode", g)) return NOTSUPP;
    u32 room = *n; *n = (u32)procs(g, '*', NULL, p, p ? room : 0);
    return !*n ? NOTFOUND : (!p || room < *n) ? INSUFF : OK;
}
API ret_t nvmlDeviceGetAccountingMode(void *h, u32 *o) { ENTER(h); *o = num(0, "gpu.%d.mig_mode", g) ? 0 : (u32)num(0, "gpu.%d.accounting", g); return OK; }
API ret_t nvmlDeviceSetAccountingMode(void *h, u32 m)
{
    ENTER(h); char k[64];
    if (num(0, "sys.unprivileged")) return NOPERM;
    if (num(0, "gpu.%d.mig_mode", g)) return NOTSUPP;
    snprintf(k, sizeof k, "gpu.%d.accounting", g);
    pthread_mutex_lock(&mu); set_over(k, m ? "1" : "0"); pthread_mutex_unlock(&mu); return OK;
}
API ret_t nvmlDeviceGetAccountingBufferSize(void *h, u32 *o) { ENTER(h); *o = (u32)num(4000, "gpu.%d.acct_buffer", g); return OK; }
API ret_t nvmlDeviceClearAccountingPids(void *h) { ENTER(h); return OK; }
API ret_t nvmlDeviceGetAccountingPids(void *h, u32 *n, u32 *pids)
{
    ENTER(h); char pre[64]; u32 c = 0, room = *n; int l = snprintf(pre, sizeof pre, "gpu.%d.acct.", g);
    pthread_mutex_lock(&mu);
    for (int i = 0; i < nkv; i++) if (!strncmp(kvs[i].k, pre, (size_t)l)) { if (c < room && pids) pids[c] = (u32)atoi(kvs[i].k + l); c++; }
    pthread_mutex_unlock(&mu);
    *n = c; return c > room ? INSUFF : OK;
}
API ret_t nvmlDeviceGetAccountingStats(void *h, u32 pid, acct_t *a)
{
    ENTER(h); char v[160];
    if (!num(0, "gpu.%d.accounting", g) || num(0, "gpu.%d.mig_mode", g)) return NOTSUPP;
    if (!str(v, sizeof v, NULL, "gpu.%d.acct.%u", g, pid)) return NOTFOUND;
    memset(a, 0, sizeof *a);
    sscanf(v, "%u,%u,%llu,%llu,%llu,%u", &a->gpuUtil, &a->memUtil, &a->maxMem, &a->time, &a->startTime, &a->isRunning);
    return OK;
}

/* ------------------------------------------------------------ MIG */
API ret_t nvmlDeviceGetMigMode(void *h, u32 *c, u32 *p) { ENTER(h); UNSUPP_UNLESS("mig_mode"); *c = (u32)num(0, "gpu.%d.mig_mode", g); *p = (u32)num(*c, "gpu.%d.mig_pending", g); return OK; }
API ret_t nvmlDeviceSetMigMode(void *h, u32 m, ret_t *st)
{
    ENTER(h); char k[64];
    if (num(0, "sys.unprivileged")) return NOPERM;
    if (procs(g, '*', NULL, NULL, 0)) return 19;                          /* NVML_ERROR_IN_USE */
    if (!m) for (u32 n = 1; n < 15; n++) {
        char v[96];
        if ((str(v, sizeof v, NULL, "gpu.%d.gi.%u", g, n) && *v) || (n <= 7 && mig_field(g, (int)n - 1, 1, v, sizeof v))) return 19;
    }
    if (num(0, "gpu.%d.mig_needs_reset", g)) { *st = 20; return OK; }     /* activation status: reset required */
    snprintf(k, sizeof k, "gpu.%d.mig_mode", g);
    pthread_mutex_lock(&mu); set_over(k, m ? "1" : "0"); pthread_mutex_unlock(&mu);
    *st = OK; return OK;
}
API ret_t nvmlDeviceGetMaxMigDeviceCount(void *h, u32 *o) { ENTER(h); *o = num(0, "gpu.%d.mig_mode", g) ? 7 : 0; return OK; }
API ret_t nvmlDeviceGetMigDeviceHandleByIndex(void *h, u32 i, void **o)
{
    ENTER(h); char t[8];
    if (i >= 7) return EINVALARG;
    if (!mig_field(g, (int)i, 1, t, sizeof t)) return NOTFOUND;            /* holes are normal: keep scanning */
    *o = &devs[g][i + 1]; return OK;
}
API ret_t nvmlDeviceIsMigDeviceHandle(void *h, u32 *o) { ENTER(h); *o = d->mig >= 0; return OK; }
static ret_t migid(struct dev *d, int f, u32 *o) { char t[16]; if (d->mig < 0) return EINVALARG; if (!mig_field(d->gpu, d->mig, f, t, sizeof t)) return NOTFOUND; *o = (u32)atoi(t); return OK; }
API ret_t nvmlDeviceGetGpuInstanceId(void *h, u32 *o) { ENTER(h); return migid(d, 1, o); }
API ret_t nvmlDeviceGetComputeInstanceId(void *h, u32 *o) { ENTER(h); return migid(d, 2, o); }
API ret_t nvmlDeviceGetDeviceHandleFromMigDeviceHandle(void *h, void **o) { ENTER(h); if (d->mig < 0) return NOTFOUND; *o = &devs[g][0]; return OK; }
API ret_t nvmlDeviceGetAttributes_v2(void *h, attr_t *a)
{
    ENTER(h); u32 v; memset(a, 0, sizeof *a);
    if (d->mig < 0) return NOTSUPP;
    if (!migid(d, 3, &v)) a->giSlices = v;
    if (!migid(d, 4, &v)) a->ciSlices = v;
    if (!migid(d, 5, &v)) a->memMB = v;
    if (!migid(d, 6, &v)) a->sm = v;
    return OK;
}
static int giprofile(int g, u32 idx, gip2_t *p)
{
    char v[160], nm[96] = "";
    if (!str(v, sizeof v, NULL, "gpu.%d.giprofile.%u", g, idx)) return 0;
    memset(p, 0, sizeof *p);
    sscanf(v, "%u,%u,%u,%u,%llu,%95s", &p->id, &p->slices, &p->instances, &p->sm, &p->memMB, nm);
    snprintf(p->name, sizeof p->name, "MIG %.80s", nm);
    return 1;
}
API ret_t nvmlDeviceGetGpuInstanceProfileInfoV(void *h, u32 idx, gip2_t *o)
{
    ENTER(h); gip2_t p;
    if (o->version != 0x02000098) return VERMISMATCH;
    if (!giprofile(g, idx, &p)) return NOTSUPP;
    p.version = o->version; *o = p; return OK;
}
/* GPU instances: keys of their own, and those that a listed MIG device implies. Ids are 1 to 14. */
#define MAXGI 15
static int profile_by_id(int g, u32 id, gip2_t *p) { for (u32 i = 0; i < 18; i++) if (giprofile(g, i, p) && p->id == id) return 1; return 0; }
static int profile_by_name(int g, const char *name, gip2_t *p) { for (u32 i = 0; i < 18; i++) if (giprofile(g, i, p) && !strcmp(p->name + 4, name)) return 1; return 0; }
static int ci_of(int g, u32 gi) { char t[16]; for (int m = 0; m < 7; m++) if (mig_field(g, m, 1, t, sizeof t) && (u32)atoi(t) == gi) return m; return -1; }
static int gi_profile(int g, u32 gi, gip2_t *p)
{
    char v[96]; int m;
    if (str(v, sizeof v, NULL, "gpu.%d.gi.%u", g, gi)) return *v && profile_by_id(g, (u32)atoi(v), p);
    return (m = ci_of(g, gi)) >= 0 && mig_field(g, m, 7, v, sizeof v) && profile_by_name(g, v, p);
}
static u32 memory_slices(int g, const gip2_t *p)
{
    u64 most = 1; gip2_t q;
    for (u32 i = 0; i < 18; i++) if (giprofile(g, i, &q) && q.memMB > most) most = q.memMB;
    return (u32)((p->memMB * 8 + most / 2) / most);
}
static void used(int g, u32 *slices, u32 *memory)
{
    gip2_t p; *slices = *memory = 0;
    for (u32 n = 1; n < MAXGI; n++) if (gi_profile(g, n, &p)) { *slices += p.slices; *memory += memory_slices(g, &p); }
}
static struct gi *gi_handle(int g, u32 id, u32 profile, u32 start, u32 size)
{
    struct gi *x = calloc(1, sizeof *x);
    *x = (struct gi){ M_GI, g, id, profile, { start, size } };
    return x;
}
API ret_t nvmlDeviceGetGpuInstanceRemainingCapacity(void *h, u32 id, u32 *o)
{
    ENTER(h); gip2_t p; u32 u, m; used(g, &u, &m);
    if (!profile_by_id(g, id, &p)) return NOTSUPP;
    *o = u > 7 ? 0 : (7 - u) / p.slices; return OK;
}
API ret_t nvmlDeviceCreateGpuInstance(void *h, u32 id, void **o)
{
    ENTER(h); gip2_t p, q; u32 u, m, n = 1; char k[64], v[16]; u64 refused;
    if (num(0, "sys.unprivileged")) return NOPERM;
    if (!num(0, "gpu.%d.mig_mode", g) || !profile_by_id(g, id, &p)) return NOTSUPP;
    if ((refused = num(0, "gpu.%d.refuse_profile.%u", g, id))) return (ret_t)refused;
    used(g, &u, &m);
    if (u + p.slices > 7 || m + memory_slices(g, &p) > 8) return 23;       /* NVML_ERROR_INSUFFICIENT_RESOURCES */
    while (n < MAXGI && gi_profile(g, n, &q)) n++;
    snprintf(k, sizeof k, "gpu.%d.gi.%u", g, n); snprintf(v, sizeof v, "%u", id);
    pthread_mutex_lock(&mu); set_over(k, v); pthread_mutex_unlock(&mu);
    *o = gi_handle(g, n, id, u, p.slices); return OK;
}
API ret_t nvmlDeviceGetGpuInstances(void *h, u32 id, void **out, u32 *count)
{
    ENTER(h); gip2_t p; *count = 0;
    if (!num(0, "gpu.%d.mig_mode", g)) return NOTSUPP;
    for (u32 n = 1; n < MAXGI; n++) if (gi_profile(g, n, &p) && p.id == id) out[(*count)++] = gi_handle(g, n, id, 0, p.slices);
    return OK;
}
API ret_t nvmlGpuInstanceGetInfo(void *p, giinfo_t *o) { ENTER_SYS(); struct gi *x = p; if (!x || x->magic != M_GI) return EINVALARG; *o = (giinfo_t){ &devs[x->gpu][0], x->id, x->profile, x->place }; return OK; }
/* Profiles of compute instances: their ids are their numbers. */
typedef struct { u32 id, slices, instances, sm, ce, dec, enc, jpeg, ofa; } cip_t;
static const u32 ci_slices[] = { 1, 2, 3, 4, 7 };
API ret_t nvmlGpuInstanceGetComputeInstanceProfileInfo(void *gp, u32 idx, u32 eng, cip_t *o)
{
    ENTER_SYS(); struct gi *x = gp; gip2_t p;
    if (!x || x->magic != M_GI || !profile_by_id(x->gpu, x->profile, &p)) return EINVALARG;
    if (idx >= 5 || eng || ci_slices[idx] > p.slices) return NOTSUPP;
    *o = (cip_t){ idx, ci_slices[idx], p.slices / ci_slices[idx], p.sm, 0, 0, 0, 0, 0 }; return OK;
}
API ret_t nvmlGpuInstanceCreateComputeInstance(void *gp, u32 prof, void **o)
{
    ENTER_SYS(); struct gi *x = gp; gip2_t p; char k[64], v[200];
    if (!x || x->magic != M_GI || !profile_by_id(x->gpu, x->profile, &p)) return EINVALARG;
    struct ci *c = calloc(1, sizeof *c); *c = (struct ci){ M_CI, x, 0 };
    for (int m = 0; m < 7; m++) if (!mig_field(x->gpu, m, 1, v, sizeof v)) {
        snprintf(k, sizeof k, "gpu.%d.mig.%d", x->gpu, m);
        snprintf(v, sizeof v, "MIG-%08x-0000-5000-8000-%012x,%u,0,%u,%u,%llu,%u,%s", x->gpu, x->id, x->id, p.slices, p.slices, p.memMB, p.sm, p.name + 4);
        pthread_mutex_lock(&mu); set_over(k, v); pthread_mutex_unlock(&mu);
        *o = c; return OK;
    }
    free(c); return 23;
}
API ret_t nvmlGpuInstanceGetComputeInstances(void *gp, u32 prof, void **out, u32 *count)
{
    ENTER_SYS(); struct gi *x = gp; char t[16]; int m;
    if (!x || x->magic != M_GI) return EINVALARG;
    *count = 0;
    if ((m = ci_of(x->gpu, x->id)) < 0 || prof >= 5 || !mig_field(x->gpu, m, 4, t, sizeof t) || (u32)atoi(t) != ci_slices[prof]) return OK;
    struct ci *c = calloc(1, sizeof *c); *c = (struct ci){ M_CI, x, 0 };
    out[(*count)++] = c; return OK;
}
API ret_t nvmlComputeInstanceDestroy(void *p)
{
    ENTER_SYS(); struct ci *c = p; char k[64]; int m;
    if (!c || c->magic != M_CI) return EINVALARG;
    if (procs(c->gi->gpu, '*', NULL, NULL, 0)) return 19;                  /* NVML_ERROR_IN_USE */
    if ((m = ci_of(c->gi->gpu, c->gi->id)) < 0) return NOTFOUND;
    /* Its GPU instance is still there, also one that only the listed device implied. */
    gip2_t q; char v[16];
    if (gi_profile(c->gi->gpu, c->gi->id, &q)) {
        snprintf(k, sizeof k, "gpu.%d.gi.%u", c->gi->gpu, c->gi->id); snprintf(v, sizeof v, "%u", q.id);
        pthread_mutex_lock(&mu); set_over(k, v); pthread_mutex_unlock(&mu);
    }
    snprintf(k, sizeof k, "gpu.%d.mig.%d", c->gi->gpu, m);
    pthread_mutex_lock(&mu); set_over(k, ""); pthread_mutex_unlock(&mu); return OK;
}
API ret_t nvmlGpuInstanceDestroy(void *p)
{
    ENTER_SYS(); struct gi *x = p; char k[64];
    if (!x || x->magic != M_GI) return EINVALARG;
    if (ci_of(x->gpu, x->id) >= 0) return 19;
    snprintf(k, sizeof k, "gpu.%d.gi.%u", x->gpu, x->id);
    pthread_mutex_lock(&mu); set_over(k, ""); pthread_mutex_unlock(&mu);
    x->magic = 0; return OK;                       /* not freed: a handle of a compute instance may point to it */
}

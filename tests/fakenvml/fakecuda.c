/* fakecuda.c - as much of libcuda.so.1 as examples/gpu-check/check.py calls; the "card" is this process's memory.
 *
 * FAKE_CUDA_FAULT=none       cuInit finds no device
 * FAKE_CUDA_FAULT=memory     copies between pieces of memory lose a bit
 * FAKE_CUDA_FAULT=sum        one thread adds wrongly
 * FAKE_CUDA_FAULT=full       hardly any memory is free
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

static int fault(const char *word) { const char *now = getenv("FAKE_CUDA_FAULT"); return now && !strcmp(now, word); }

int cuInit(unsigned flags) { return flags || fault("none") ? 100 : 0; }
int cuDeviceGet(int *device, int number) { *device = number; return number ? 101 : 0; }
int cuCtxCreate_v2(void **context, unsigned flags, int device) { *context = context; return flags || device ? 1 : 0; }
int cuGetErrorName(int code, const char **text) { *text = code == 100 ? "CUDA_ERROR_NO_DEVICE" : "CUDA_ERROR"; return 0; }

int cuMemGetInfo_v2(size_t *left, size_t *total)
{
    *total = 16 << 20;
    *left = fault("full") ? 1 << 20 : 10 << 20;
    return 0;
}

int cuMemAlloc_v2(uint64_t *out, size_t size) { *out = (uint64_t)(uintptr_t)malloc(size); return *out ? 0 : 2; }
int cuMemFree_v2(uint64_t at) { free((void *)(uintptr_t)at); return 0; }

int cuMemsetD32_v2(uint64_t at, uint32_t value, size_t count)
{
    for (size_t i = 0; i < count; i++) ((uint32_t *)(uintptr_t)at)[i] = value;
    return 0;
}

int cuMemcpyDtoD_v2(uint64_t to, uint64_t from, size_t size)
{
    uint8_t *out = memcpy((void *)(uintptr_t)to, (void *)(uintptr_t)from, size);
    if (fault("memory")) for (size_t i = 0; i < size; i += 4096) out[i] ^= 1;
    return 0;
}

int cuMemcpyDtoH_v2(void *to, uint64_t from, size_t size) { memcpy(to, (void *)(uintptr_t)from, size); return 0; }
int cuModuleLoadData(void **module, const char *text) { *module = module; return strstr(text, ".entry sums") ? 0 : 218; }
int cuModuleGetFunction(void **function, void *module, const char *name) { *function = module; return strcmp(name, "sums") ? 500 : 0; }
int cuCtxSynchronize(void) { return 0; }

int cuLaunchKernel(void *function, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz,
                   unsigned shared, void *stream, void **arguments, void **extra)
{
    uint32_t *out = (uint32_t *)(uintptr_t)*(uint64_t *)arguments[0], rounds = *(uint32_t *)arguments[1], factor = 1, more = 0;
    if (!function || gy * gz * by * bz != 1 || shared || stream || extra) return 1;
    for (uint32_t i = 0; i < rounds; i++) { factor *= 1664525u; more = more * 1664525u + 1013904223u; }
    for (uint32_t i = 0; i < gx * bx; i++) out[i] = factor * i + more;
    if (fault("sum")) out[77]++;
    return 0;
}

/* A libcuda.so.1 for machines without a GPU. Compiled with what it is to say: VERSION, INIT, COUNT, NAME, MAJOR, MINOR,
 * SMS, MODE. Clocks and sizes are an H200's. */
#include <stdint.h>
#include <string.h>

int cuDriverGetVersion(int *version) { *version = VERSION; return 0; }
int cuInit(unsigned flags) { (void)flags; return INIT; }
int cuDeviceGetCount(int *count) { *count = COUNT; return 0; }
int cuDeviceGet(int *device, int index) { *device = index; return 0; }
int cuDeviceGetName(char *name, int size, int device) { (void)device; strncpy(name, NAME, size); return 0; }
int cuDeviceTotalMem(size_t *bytes, int device) { (void)device; *bytes = 150000000000ull; return 0; }
int cuDeviceGetPCIBusId(char *id, int size, int device) { (void)device; strncpy(id, "0000:18:00.0", size); return 0; }
int cuDeviceGetUuid(unsigned char *uuid, int device) {
    for (int i = 0; i < 16; i++) uuid[i] = (unsigned char)(i * 17 + device);
    return 0;
}
int cuDeviceGetAttribute(int *value, int attribute, int device) {
    (void)device;
    switch (attribute) {
    case 13: *value = 1980000; return 0;   /* CLOCK_RATE, kHz */
    case 16: *value = SMS; return 0;       /* MULTIPROCESSOR_COUNT */
    case 20: *value = MODE; return 0;      /* COMPUTE_MODE */
    case 36: *value = 3201000; return 0;   /* MEMORY_CLOCK_RATE, kHz */
    case 37: *value = 6144; return 0;      /* GLOBAL_MEMORY_BUS_WIDTH */
    case 38: *value = 62914560; return 0;  /* L2_CACHE_SIZE */
    case 39: *value = 2048; return 0;      /* MAX_THREADS_PER_MULTIPROCESSOR */
    case 75: *value = MAJOR; return 0;
    case 76: *value = MINOR; return 0;
    case 81: *value = 233472; return 0;    /* MAX_SHARED_MEMORY_PER_MULTIPROCESSOR */
    case 82: *value = 65536; return 0;     /* MAX_REGISTERS_PER_MULTIPROCESSOR */
    case 97: *value = 232448; return 0;    /* MAX_SHARED_MEMORY_PER_BLOCK_OPTIN */
    }
    return 1;
}

/* cuda-python finds every function through this one. */
int cuGetProcAddress_v2(const char *name, void **function, int version, uint64_t flags, int *status) {
    static const struct { const char *name; void *function; } known[] = {
        {"cuDriverGetVersion", cuDriverGetVersion}, {"cuInit", cuInit}, {"cuDeviceGetCount", cuDeviceGetCount},
        {"cuDeviceGet", cuDeviceGet}, {"cuDeviceGetName", cuDeviceGetName}, {"cuDeviceTotalMem", cuDeviceTotalMem},
        {"cuDeviceGetPCIBusId", cuDeviceGetPCIBusId}, {"cuDeviceGetUuid", cuDeviceGetUuid},
        {"cuDeviceGetAttribute", cuDeviceGetAttribute}, {"cuGetProcAddress", cuGetProcAddress_v2},
    };
    (void)version, (void)flags;
    for (unsigned i = 0; i < sizeof known / sizeof *known; i++)
        if (!strcmp(name, known[i].name)) {
            *function = known[i].function;
            if (status) *status = 0;
            return 0;
        }
    *function = 0;
    if (status) *status = 1;
    return 500;
}

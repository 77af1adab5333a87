/* As much of CUDA's driver as gpuprof asks: one GPU, on which the program has a context. */
#include <stddef.h>

int cuInit(unsigned flags) { return 0; }

int cuDriverGetVersion(int *version) {
    *version = 13000;
    return 0;
}

int cuDeviceGetCount(int *count) {
    *count = 1;
    return 0;
}

int cuDeviceGetName(char *name, int room, int device) {
    name[0] = 0;
    return 0;
}

int cuDeviceGetAttribute(int *value, int attribute, int device) {
    *value = 9;
    return 0;
}

int cuDeviceTotalMem_v2(size_t *bytes, int device) {
    *bytes = 1 << 30;
    return 0;
}

int cuDevicePrimaryCtxGetState(int device, unsigned *flags, int *is_active) {
    *is_active = 1;
    return 0;
}

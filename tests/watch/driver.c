/* A driver library for the tests: two GPUs behind the real functions and structures of NVML, which nvidia-ml-py loads.
 *
 * GPU 0 computes for the process GPU_PID. GPU_MODE: "lost" (GPU 1 fell off the bus), "hang", "unloaded". Compiled with
 * -DOLD it is a driver before 510, without the third form of the list of processes. No header is needed.
 */
extern char *getenv(const char *name);
extern int atoi(const char *text);
extern int strcmp(const char *a, const char *b);
extern char *strcpy(char *to, const char *from);
extern unsigned sleep(unsigned seconds);

enum { SUCCESS = 0, NOT_SUPPORTED = 3, INSUFFICIENT_SIZE = 7, DRIVER_NOT_LOADED = 9, GPU_IS_LOST = 15 };

typedef struct { unsigned gpu, memory; } Utilization;
typedef struct { unsigned long long total, free, used; } Memory;
typedef struct { unsigned pid; unsigned long long memory; unsigned gpu_instance, compute_instance; } Process;

static int is_mode(const char *mode) {
    const char *given = getenv("GPU_MODE");
    return given && !strcmp(given, mode);
}

static long number(void *device) { return (long)device - 1; }

int nvmlInitWithFlags(unsigned flags) {
    if (is_mode("hang")) sleep(600);
    return is_mode("unloaded") ? DRIVER_NOT_LOADED : SUCCESS;
}
int nvmlShutdown(void) { return SUCCESS; }
const char *nvmlErrorString(int code) { return "an error of the driver"; }
int nvmlDeviceGetCount_v2(unsigned *count) { *count = 2; return SUCCESS; }

int nvmlDeviceGetHandleByIndex_v2(unsigned index, void **device) {
    if (index == 1 && is_mode("lost")) return GPU_IS_LOST;
    *device = (void *)(long)(index + 1);
    return SUCCESS;
}

int nvmlDeviceGetUUID(void *device, char *name, unsigned length) {
    strcpy(name, number(device) ? "GPU-11111111-1111-1111-1111-111111111111" : "GPU-00000000-0000-0000-0000-000000000000");
    return SUCCESS;
}

int nvmlDeviceGetUtilizationRates(void *device, Utilization *rates) {
    if (number(device)) return NOT_SUPPORTED; /* as a device in slices answers */
    rates->gpu = 97;
    rates->memory = 40;
    return SUCCESS;
}

int nvmlDeviceGetMemoryInfo(void *device, Memory *memory) {
    memory->total = 80000000000ULL;
    memory->used = number(device) ? 1000000000ULL : 62100000000ULL;
    memory->free = memory->total - memory->used;
    return SUCCESS;
}

int nvmlDeviceGetTemperature(void *device, int sensor, unsigned *degrees) { *degrees = 71; return SUCCESS; }
int nvmlDeviceGetMinorNumber(void *device, unsigned *minor) { *minor = number(device); return SUCCESS; }
int nvmlDeviceGetMaxMigDeviceCount(void *device, unsigned *count) { *count = 0; return SUCCESS; }

static int computing(void *device, unsigned *count, Process *processes) {
    const char *pid = getenv("GPU_PID");
    if (number(device) || !pid) { *count = 0; return SUCCESS; }
    if (!processes || *count < 1) { *count = 1; return INSUFFICIENT_SIZE; }
    processes[0].pid = atoi(pid);
    processes[0].memory = 61000000000ULL;
    *count = 1;
    return SUCCESS;
}

int nvmlDeviceGetComputeRunningProcesses_v2(void *device, unsigned *count, Process *processes) {
    return computing(device, count, processes);
}
#ifndef OLD
int nvmlDeviceGetComputeRunningProcesses_v3(void *device, unsigned *count, Process *processes) {
    return computing(device, count, processes);
}
#endif

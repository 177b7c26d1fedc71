/* An NVML library without GPUs, that can be told to fail. See README.md for the environment it reads.
 *
 * nvidia-ml-py loads it as the real one (libnvidia-ml.so.1), so the sampler's own code runs. Layouts and
 * return codes are those of nvml.h; values are random within a busy H200's ranges.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

typedef unsigned int u32;
typedef unsigned long long u64;

enum { OK = 0, INVALID_ARGUMENT = 2, NOT_SUPPORTED = 3, NOT_FOUND = 6, INSUFFICIENT_SIZE = 7, TIMEOUT = 10 };
enum { MAX_GPUS = 128, MAX_MIG = 7, MAX_RULES = 16 };

static unsigned long calls;
static u32 seed = 1;
static unsigned long matched[MAX_RULES][MAX_GPUS];
static char fired[32];

unsigned long fake_calls(void) { return calls; }
void fake_reset(void) {
    calls = 0;
    memset(matched, 0, sizeof matched);
    memset(fired, 0, sizeof fired);
}

static u32 between(u32 low, u32 high) {
    seed = seed * 1103515245u + 12345u;
    return low + ((seed >> 16) % (high - low + 1));
}
static int number(const char *name, int otherwise) {
    const char *text = getenv(name);
    return text && *text ? atoi(text) : otherwise;
}
static double seconds_now(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec + now.tv_nsec / 1e9;
}

/* A handle is 1 + card * 16 + slot; slot 0 is the card, 1..7 its MIG instances. */
static int card_of(void *handle) { return (int)(((long)handle - 1) / 16); }
static int slot_of(void *handle) { return (int)(((long)handle - 1) % 16); }
static void *handle_of(int card, int slot) { return (void *)(long)(1 + card * 16 + slot); }

/* FAKE_NVML_FAULTS: rules CALL:GPU:CODE:FROM[:SLEEP_MS] separated by ',', '*' matches all; from the FROM-th
 * matching call of that GPU on, the call sleeps and then returns CODE. */
static int fault(const char *call, int card) {
    const char *rules = getenv("FAKE_NVML_FAULTS");
    calls++;
    for (int rule = 0; rules && *rules && rule < MAX_RULES; rule++) {
        char name[64] = "", gpu[8] = "";
        int code = 0, from = 0, sleep_ms = 0;
        if (sscanf(rules, "%63[^:]:%7[^:]:%d:%d:%d", name, gpu, &code, &from, &sleep_ms) >= 4) {
            int fits = (name[0] == '*' || strcmp(call, name) == 0) && (gpu[0] == '*' || atoi(gpu) == card);
            if (fits && matched[rule][card]++ >= (unsigned long)from) {
                if (sleep_ms) usleep((useconds_t)sleep_ms * 1000);
                return code;
            }
        }
        rules = strchr(rules, ',');
        if (rules) rules++;
    }
    return OK;
}
#define CALL(handle) do { int code = fault(__func__, card_of(handle)); if (code) return code; } while (0)

/* FAKE_NVML_MIG: "CARD:INSTANCES" of the one partitioned card. */
static int mig_instances(int card) {
    const char *text = getenv("FAKE_NVML_MIG");
    int which, count;
    return text && sscanf(text, "%d:%d", &which, &count) == 2 && which == card ? count : 0;
}
#define NOT_ON_MIG(handle) do { if (mig_instances(card_of(handle))) return NOT_SUPPORTED; } while (0)

/* FAKE_NVML_GONE: a card the driver no longer lists; those behind it move up. */
static int gone(void) { return number("FAKE_NVML_GONE", -1); }

/* ------------------------------------------------------------------------------------------- library */

int nvmlInit_v2(void) { calls++; return number("FAKE_NVML_INIT", OK); }
int nvmlInitWithFlags(u32 flags) { (void)flags; return nvmlInit_v2(); }
int nvmlShutdown(void) { return OK; }
const char *nvmlErrorString(int code) { (void)code; return "fake"; }
int nvmlSystemGetDriverVersion(char *out, u32 size) { snprintf(out, size, "580.82.07"); return OK; }
int nvmlSystemGetNVMLVersion(char *out, u32 size) { snprintf(out, size, "13.580.82"); return OK; }
int nvmlSystemGetCudaDriverVersion(int *out) { *out = 13000; return OK; }
int nvmlSystemGetCudaDriverVersion_v2(int *out) { *out = 13000; return OK; }

int nvmlDeviceGetCount_v2(u32 *out) {
    calls++;
    int count = number("FAKE_NVML_GPUS", 8);
    *out = (u32)(gone() >= 0 && gone() < count ? count - 1 : count);
    return OK;
}
int nvmlDeviceGetHandleByIndex_v2(u32 index, void **out) {
    u32 count;
    nvmlDeviceGetCount_v2(&count);
    if (index >= count) return INVALID_ARGUMENT;
    int card = (int)index + (gone() >= 0 && (int)index >= gone());
    *out = handle_of(card, 0);
    return fault(__func__, card);
}

/* ------------------------------------------------------------------------------------------ identity */

int nvmlDeviceGetIndex(void *h, u32 *out) { CALL(h); *out = (u32)card_of(h); return OK; }
int nvmlDeviceGetMinorNumber(void *h, u32 *out) { CALL(h); *out = (u32)card_of(h); return OK; }
int nvmlDeviceGetName(void *h, char *out, u32 size) {
    CALL(h);
    snprintf(out, size, slot_of(h) ? "NVIDIA H200 MIG 1g.18gb" : "NVIDIA H200");
    return OK;
}
int nvmlDeviceGetUUID(void *h, char *out, u32 size) {
    CALL(h);
    if (slot_of(h)) snprintf(out, size, "MIG-00000000-0000-0000-%04d-%012d", card_of(h), slot_of(h));
    else snprintf(out, size, "GPU-00000000-0000-0000-0000-%012d", card_of(h));
    return OK;
}
int nvmlDeviceGetSerial(void *h, char *out, u32 size) { CALL(h); snprintf(out, size, "0%d", card_of(h)); return OK; }
typedef struct { char legacy[16]; u32 domain, bus, device, id, subsystem; char bus_id[32]; } Pci;
int nvmlDeviceGetPciInfo_v3(void *h, Pci *out) {
    CALL(h);
    memset(out, 0, sizeof *out);
    out->bus = (u32)card_of(h) + 1;
    snprintf(out->bus_id, sizeof out->bus_id, "00000000:%02X:00.0", card_of(h) + 1);
    snprintf(out->legacy, sizeof out->legacy, "0000:%02X:00.0", card_of(h) + 1);
    return OK;
}
int nvmlDeviceGetCudaComputeCapability(void *h, int *major, int *minor) { CALL(h); *major = 9; *minor = 0; return OK; }

/* ------------------------------------------------------------------------------------------- figures */

typedef struct { u64 total, free, used; } Memory1;
typedef struct { u32 version; u64 total, reserved, free, used; } Memory2;
static u64 memory_total(void *h) { return slot_of(h) ? 18ULL << 30 : 150754820096ULL; }
static u64 memory_used(void *h) { return slot_of(h) ? 10ULL << 30 : (u64)between(120, 140) << 30; }
int nvmlDeviceGetMemoryInfo(void *h, Memory1 *out) {
    CALL(h);
    out->total = memory_total(h);
    out->used = memory_used(h);
    out->free = out->total - out->used;
    return OK;
}
int nvmlDeviceGetMemoryInfo_v2(void *h, Memory2 *out) {
    CALL(h);
    out->total = memory_total(h);
    out->reserved = 500 << 20;
    out->used = memory_used(h);
    out->free = out->total - out->used;
    return OK;
}
typedef struct { u32 gpu, memory; } Utilization;
int nvmlDeviceGetUtilizationRates(void *h, Utilization *out) {
    CALL(h);
    NOT_ON_MIG(h);
    out->gpu = between(80, 100);
    out->memory = between(30, 60);
    return OK;
}
int nvmlDeviceGetTemperature(void *h, u32 sensor, u32 *out) { (void)sensor; CALL(h); *out = between(50, 70); return OK; }
typedef struct { u32 version; int sensor, value; } Temperature;
int nvmlDeviceGetTemperatureV(void *h, Temperature *out) { CALL(h); out->value = (int)between(50, 70); return OK; }
int nvmlDeviceGetFanSpeed(void *h, u32 *out) { (void)out; CALL(h); return NOT_SUPPORTED; }
int nvmlDeviceGetPowerUsage(void *h, u32 *out) { CALL(h); *out = between(400000, 700000); return OK; }
int nvmlDeviceGetPowerManagementLimit(void *h, u32 *out) { CALL(h); *out = 700000; return OK; }
int nvmlDeviceGetEnforcedPowerLimit(void *h, u32 *out) { CALL(h); *out = 700000; return OK; }
int nvmlDeviceGetClockInfo(void *h, int type, u32 *out) { (void)type; CALL(h); *out = between(1500, 1980); return OK; }
int nvmlDeviceGetMaxClockInfo(void *h, int type, u32 *out) { (void)type; CALL(h); *out = 1980; return OK; }
int nvmlDeviceGetCurrentClocksEventReasons(void *h, u64 *out) {
    CALL(h);
    *out = (u64)number("FAKE_NVML_THROTTLE", 0);
    return OK;
}
int nvmlDeviceGetPerformanceState(void *h, int *out) { CALL(h); *out = 0; return OK; }
int nvmlDeviceGetPersistenceMode(void *h, int *out) { CALL(h); *out = 1; return OK; }
int nvmlDeviceGetDisplayActive(void *h, int *out) { CALL(h); *out = 0; return OK; }
int nvmlDeviceGetDisplayMode(void *h, int *out) { CALL(h); *out = 0; return OK; }
int nvmlDeviceGetComputeMode(void *h, int *out) { CALL(h); *out = 0; return OK; }
int nvmlDeviceGetTotalEccErrors(void *h, int type, int counter, u64 *out) {
    (void)type; (void)counter;
    CALL(h);
    NOT_ON_MIG(h);
    *out = (u64)number("FAKE_NVML_ECC", 0);
    return OK;
}
typedef struct { u64 total, free, used; } Bar1;
int nvmlDeviceGetBAR1MemoryInfo(void *h, Bar1 *out) {
    CALL(h);
    out->total = 256ULL << 30;
    out->used = 1ULL << 30;
    out->free = out->total - out->used;
    return OK;
}
int nvmlDeviceGetEncoderUtilization(void *h, u32 *out, u32 *period) { CALL(h); *out = 0; *period = 1000; return OK; }
int nvmlDeviceGetDecoderUtilization(void *h, u32 *out, u32 *period) { CALL(h); *out = 0; *period = 1000; return OK; }
int nvmlDeviceGetDriverModel(void *h, u32 *a, u32 *b) { (void)a; (void)b; CALL(h); return NOT_SUPPORTED; }
int nvmlDeviceGetDriverModel_v2(void *h, u32 *a, u32 *b) { (void)a; (void)b; CALL(h); return NOT_SUPPORTED; }

/* --------------------------------------------------------------------------------------------- PCIe */

/* The real call samples inside itself and blocks for 21 ms per direction. */
int nvmlDeviceGetPcieThroughput(void *h, int counter, u32 *out) {
    (void)counter;
    CALL(h);
    NOT_ON_MIG(h);
    usleep(21000);
    *out = between(0, 1000000);
    return OK;
}
typedef struct { u32 id, scope; long long at, latency; u32 type; int code; union { double d; u32 ui; u64 ull; } value; } Field;
enum { TX_BYTES = 197, RX_BYTES = 198, TYPE_UNSIGNED_INT = 1, TYPE_UNSIGNED_LONG_LONG = 3 };
/* Byte counters wrap at 2^32, as they were seen to on an H200 under driver 580. */
int nvmlDeviceGetFieldValues(void *h, int count, Field *fields) {
    CALL(h);
    for (int i = 0; i < count; i++) {
        int known = fields[i].id == TX_BYTES || fields[i].id == RX_BYTES;
        fields[i].code = known && !mig_instances(card_of(h)) ? OK : NOT_SUPPORTED;
        const char *rate = getenv("FAKE_NVML_PCIE_BYTES_S");
        double bytes = seconds_now() * (rate ? atof(rate) : 12e9);
        fields[i].type = TYPE_UNSIGNED_LONG_LONG;
        fields[i].value.ull = (u64)bytes & 0xffffffffULL;
    }
    return OK;
}

/* -------------------------------------------------------------------------------------------- MIG */

int nvmlDeviceGetMigMode(void *h, u32 *current, u32 *pending) {
    CALL(h);
    *current = *pending = mig_instances(card_of(h)) > 0;
    return OK;
}
int nvmlDeviceGetMaxMigDeviceCount(void *h, u32 *out) { CALL(h); *out = MAX_MIG; return OK; }
int nvmlDeviceIsMigDeviceHandle(void *h, u32 *out) { CALL(h); *out = slot_of(h) > 0; return OK; }
int nvmlDeviceGetMigDeviceHandleByIndex(void *h, u32 index, void **out) {
    CALL(h);
    if ((int)index >= mig_instances(card_of(h))) return NOT_FOUND;
    *out = handle_of(card_of(h), (int)index + 1);
    return OK;
}
int nvmlDeviceGetGpuInstanceId(void *h, u32 *out) { (void)out; CALL(h); return NOT_SUPPORTED; }
int nvmlDeviceGetComputeInstanceId(void *h, u32 *out) { (void)out; CALL(h); return NOT_SUPPORTED; }

/* ---------------------------------------------------------------------------------------- processes */

/* FAKE_PIDS: one pid, or one per GPU separated by ','; this process without it. */
static u32 pid_on(int card) {
    const char *pids = getenv("FAKE_PIDS");
    u32 pid = (u32)getpid();
    for (int i = 0; pids && *pids && i <= card; i++) {
        pid = (u32)atoi(pids);
        const char *next = strchr(pids, ',');
        if (!next) break;
        pids = next + 1;
    }
    return pid;
}
typedef struct { u32 pid; u64 used; u32 gpu_instance, compute_instance; } ProcessInfo;
static int processes(void *h, u32 *count, ProcessInfo *out) {
    if (!out || *count < 1) { *count = 1; return INSUFFICIENT_SIZE; }
    out->pid = pid_on(card_of(h));
    out->used = 130ULL << 30;
    out->gpu_instance = out->compute_instance = 0xffffffffu;
    *count = 1;
    return OK;
}
int nvmlDeviceGetComputeRunningProcesses_v3(void *h, u32 *n, ProcessInfo *out) { CALL(h); return processes(h, n, out); }
int nvmlDeviceGetComputeRunningProcesses_v2(void *h, u32 *n, ProcessInfo *out) { CALL(h); return processes(h, n, out); }
int nvmlDeviceGetGraphicsRunningProcesses_v3(void *h, u32 *n, void *out) { (void)out; CALL(h); *n = 0; return OK; }
int nvmlDeviceGetGraphicsRunningProcesses_v2(void *h, u32 *n, void *out) { (void)out; CALL(h); *n = 0; return OK; }
int nvmlDeviceGetMPSComputeRunningProcesses_v3(void *h, u32 *n, void *out) { (void)out; CALL(h); *n = 0; return OK; }
typedef struct { u32 pid; u64 at; u32 sm, memory, encoder, decoder; } ProcessUtilization;
int nvmlDeviceGetProcessUtilization(void *h, ProcessUtilization *out, u32 *count, u64 since) {
    CALL(h);
    if (!out || *count < 1) { *count = 1; return INSUFFICIENT_SIZE; }
    *out = (ProcessUtilization){.pid = pid_on(card_of(h)), .at = since + 1000, .sm = 90, .memory = 50};
    return OK;
}

/* ------------------------------------------------------------------------------------------- events */

int nvmlEventSetCreate(void **out) { calls++; *out = (void *)1L; return OK; }
int nvmlEventSetFree(void *set) { (void)set; return OK; }
int nvmlDeviceRegisterEvents(void *h, u64 types, void *set) { (void)types; (void)set; CALL(h); return OK; }
typedef struct { void *device; u64 type, data; u32 gpu_instance, compute_instance; } Event;
/* FAKE_NVML_XID: "CARD:XID", delivered once per value. */
int nvmlEventSetWait_v2(void *set, Event *out, u32 timeout_ms) {
    (void)set; (void)timeout_ms;
    calls++;
    const char *text = getenv("FAKE_NVML_XID");
    int card, xid;
    if (!text || strncmp(text, fired, sizeof fired) == 0 || sscanf(text, "%d:%d", &card, &xid) != 2) return TIMEOUT;
    snprintf(fired, sizeof fired, "%s", text);
    *out = (Event){.device = handle_of(card, 0), .type = 8, .data = (u64)xid};
    return OK;
}

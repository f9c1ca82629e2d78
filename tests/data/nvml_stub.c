/* A small libnvidia-ml.so.1 for tests: NVML's C interface (nvml.h, NVIDIA) for one GPU with two profiles, so that the real pynvml
   and ctypes run the whole life cycle. It answers as the simulator does; tests compare both.
   Environment: NVML_STUB_FAIL="function=code" makes one function fail, NVML_STUB_MIG starts with MIG mode on,
   NVML_STUB_ACTIVATION is the status that a mode change answers, NVML_STUB_PID a process that has the whole GPU, NVML_STUB_BUSY one on every instance, NVML_STUB_NO_PERMISSION a caller
   without rights, NVML_STUB_REUSE lets old handles stand for what is made later, NVML_STUB_MINORS_MOVE gives the GPU another
   minor number with each change of its mode, NVML_STUB_GPM is a GPU with performance counters and how busy they say that it is,
   in percent.
   Compiled with NVML_STUB_OLD it is a library before R510: no names of profiles, no ...InfoV, no ..._v3. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define POOL 64
#define CI_ID_BASE 16 /* no id of a compute instance profile is its index */
typedef struct { unsigned start, size; } Placement;
typedef struct { unsigned used, id, profile; Placement place; unsigned ci, ci_used, mig_index; } Instance;
typedef struct { unsigned id, p2p, slices, count, sms, ce, dec, enc, jpeg, ofa; unsigned long long mb; } GiProfile1;
typedef struct { unsigned version, id, p2p, slices, count, sms, ce, dec, enc, jpeg, ofa; unsigned long long mb; char name[96]; } GiProfile;
typedef struct { unsigned id, slices, count, sms, ce, dec, enc, jpeg, ofa; } CiProfile1;
typedef struct { unsigned version, id, slices, count, sms, ce, dec, enc, jpeg, ofa; char name[96]; } CiProfile;
typedef struct { void *device; unsigned id, profile; Placement place; } GiInfo;
typedef struct { void *device, *gi; unsigned id, profile; Placement place; } CiInfo;
typedef struct { char legacy[16]; unsigned domain, bus, device, pci, subsystem; char bus_id[32]; } Pci;
typedef struct { unsigned field, scope; long long stamp, latency; unsigned type, ret; union { double d; unsigned u; } value; } Field;
typedef struct { unsigned pid; unsigned long long used; unsigned gi, ci; } Process;

enum { OK = 0, INVALID = 2, UNSUPPORTED = 3, NO_PERMISSION = 4, MISSING = 6, SMALL = 7, IN_USE = 19, FULL = 23 };
#ifdef NVML_STUB_OLD
static const char *const version = "470.57.02";
static const unsigned profile_count = 8;
#else
static const char *const version = "580.65.06";
static const unsigned profile_count = 18;
#endif
static int gpu_object, sessions;
static unsigned current, pending, minor_number, made_so_far;
static Instance instances[POOL]; /* a slot is used once, so that old handles are invalid, unless NVML_STUB_REUSE is set */
#define GPU ((void *)&gpu_object)
#define FAIL(name) do { int code = planned(name); if (code) return code; if (!sessions) return 1; } while (0)
#define GUARD() do { if (getenv("NVML_STUB_NO_PERMISSION")) return NO_PERMISSION; } while (0)

static int planned(const char *name) {
    const char *plan = getenv("NVML_STUB_FAIL"), *at = plan ? strchr(plan, '=') : NULL;
    return at && strlen(name) == (size_t)(at - plan) && !strncmp(plan, name, (size_t)(at - plan)) ? atoi(at + 1) : OK;
}
static Instance *instance_of(void *handle) {
    for (int i = 0; i < POOL; i++) if (handle == &instances[i] && instances[i].used) return &instances[i];
    return NULL;
}
static Instance *by_part(void *handle, int mig) { /* compute instances and MIG devices point into their instance */
    for (int i = 0; i < POOL; i++)
        if (instances[i].ci_used && handle == (mig ? (void *)&instances[i].ci : (void *)&instances[i].ci_used)) return &instances[i];
    return NULL;
}
static Instance *by_index(unsigned index) {
    for (int i = 0; i < POOL; i++) if (instances[i].ci_used && instances[i].mig_index == index) return &instances[i];
    return NULL;
}
static unsigned slices_of(const Instance *i) { return i->profile == 9 ? 3 : 1; }
static int gi_profile(void *device, unsigned index, GiProfile1 *info) {
    if (index >= profile_count || device != GPU) return INVALID;
    if (index != 0 && index != 2) return UNSUPPORTED;
    *info = index ? (GiProfile1){ 9, 0, 3, 2, 42, 3, 2, 0, 0, 0, 19968 } : (GiProfile1){ 19, 0, 1, 7, 14, 1, 0, 0, 0, 0, 4864 };
#ifdef NVML_STUB_OLD
    if (!current) return UNSUPPORTED;
#endif
    return OK;
}
static int ci_profile(void *handle, unsigned index, unsigned engine, CiProfile1 *info) {
    Instance *i = instance_of(handle);
    if (index >= 9 || engine || !i) return INVALID;
    if (index >= slices_of(i)) return UNSUPPORTED;
    *info = (CiProfile1){ index + CI_ID_BASE, index + 1, slices_of(i) / (index + 1), 14 * (index + 1), 0, 0, 0, 0, 0 };
    return OK;
}

int nvmlInitWithFlags(unsigned flags) {
    int code = planned("nvmlInit");
    if (code) return code;
    if (!sessions++ && getenv("NVML_STUB_MIG")) current = pending = 1;
    return flags ? INVALID : OK;
}
int nvmlShutdown(void) { sessions--; return OK; }
int nvmlSystemGetDriverVersion(char *text, unsigned size) { FAIL("nvmlSystemGetDriverVersion"); snprintf(text, size, "%s", version); return OK; }
int nvmlDeviceGetCount_v2(unsigned *count) { FAIL("nvmlDeviceGetCount"); *count = 1; return OK; }
int nvmlDeviceGetHandleByIndex_v2(unsigned index, void **device) { FAIL("nvmlDeviceGetHandleByIndex"); *device = GPU; return index ? INVALID : OK; }
int nvmlDeviceGetIndex(void *device, unsigned *index) {
    FAIL("nvmlDeviceGetIndex");
    Instance *i = by_part(device, 1);
    *index = i ? i->mig_index : 0;
    return i || device == GPU ? OK : INVALID;
}
int nvmlDeviceGetUUID(void *device, char *text, unsigned size) {
    FAIL("nvmlDeviceGetUUID");
    Instance *i = by_part(device, 1);
    if (device == GPU) snprintf(text, size, "GPU-stub");
    else if (i) snprintf(text, size, "MIG-stub-%u-0", i->id);
    else return INVALID;
    return OK;
}
int nvmlDeviceGetHandleByUUID(const char *uuid, void **device) {
    FAIL("nvmlDeviceGetHandleByUUID");
    char text[96];
    for (int i = 0; i < POOL; i++) {
        snprintf(text, sizeof text, "MIG-stub-%u-0", instances[i].id);
        if (instances[i].ci_used && !strcmp(uuid, text)) { *device = &instances[i].ci; return OK; }
    }
    *device = GPU;
    return strcmp(uuid, "GPU-stub") ? MISSING : OK;
}
int nvmlDeviceGetName(void *device, char *text, unsigned size) {
    FAIL("nvmlDeviceGetName");
    Instance *i = by_part(device, 1);
    if (!i && device != GPU) return INVALID;
    if (i) snprintf(text, size, "NVIDIA A100-SXM4-40GB MIG %s%s", i->ci_used == slices_of(i) ? "" : i->ci_used == 1 ? "1c." : "2c.", i->profile == 9 ? "3g.20gb" : "1g.5gb");
    else snprintf(text, size, "NVIDIA A100-SXM4-40GB");
    return OK;
}
int nvmlDeviceGetPciInfo_v3(void *device, Pci *pci) { FAIL("nvmlDeviceGetPciInfo"); memset(pci, 0, sizeof *pci); strcpy(pci->bus_id, "00000000:10:00.0"); return device == GPU ? OK : INVALID; }
int nvmlDeviceGetMinorNumber(void *device, unsigned *minor) { FAIL("nvmlDeviceGetMinorNumber"); *minor = minor_number; return device == GPU ? OK : INVALID; }
int nvmlDeviceGetMemoryInfo(void *device, unsigned long long *total_free_used) {
    FAIL("nvmlDeviceGetMemoryInfo");
    Instance *i = by_part(device, 1);
    if (!i && device != GPU) return INVALID;
    if (!i && current) GUARD();
    total_free_used[0] = (i ? (i->profile == 9 ? 19968ULL : 4864ULL) : 40960ULL) << 20;
    total_free_used[1] = total_free_used[0];
    total_free_used[2] = 0;
    return OK;
}
int nvmlDeviceGetFieldValues(void *device, int count, Field *fields) {
    FAIL("nvmlDeviceGetFieldValues");
    for (int i = 0; i < count; i++) { fields[i].ret = OK; fields[i].value.u = 0; }
    return device == GPU ? OK : INVALID;
}
#ifndef NVML_STUB_OLD
int nvmlDeviceGetComputeRunningProcesses_v3(void *device, unsigned *count, Process *processes) {
    FAIL("nvmlDeviceGetComputeRunningProcesses_v3");
    if (device == GPU && current) GUARD();
    const char *pid = getenv("NVML_STUB_PID");
    unsigned room = *count;
    *count = device == GPU && pid != NULL;
    if (room < *count) return SMALL;
    if (*count) processes[0] = (Process){ (unsigned)atoi(pid), 3 << 20, 0xFFFFFFFF, 0xFFFFFFFF };
    return OK;
}
#endif
int nvmlDeviceGetMigMode(void *device, unsigned *now, unsigned *later) { FAIL("nvmlDeviceGetMigMode"); *now = current; *later = pending; return device == GPU ? OK : INVALID; }
int nvmlDeviceSetMigMode(void *device, unsigned mode, unsigned *status) {
    FAIL("nvmlDeviceSetMigMode");
    if (device != GPU) return INVALID;
    GUARD();
    pending = mode;
    *status = OK;
    if (pending == current) return OK;
    *status = getenv("NVML_STUB_PID") ? IN_USE : getenv("NVML_STUB_ACTIVATION") ? (unsigned)atoi(getenv("NVML_STUB_ACTIVATION")) : OK;
    if (*status) return OK;
    current = mode;
    for (int i = 0; i < POOL; i++) instances[i].used = instances[i].ci_used = 0;
    if (getenv("NVML_STUB_MINORS_MOVE")) minor_number = !minor_number;
    return OK;
}
int nvmlDeviceGetGpuInstanceProfileInfo(void *device, unsigned index, GiProfile1 *info) { FAIL("nvmlDeviceGetGpuInstanceProfileInfo"); return gi_profile(device, index, info); }
#ifndef NVML_STUB_OLD
int nvmlDeviceGetGpuInstanceProfileInfoV(void *device, unsigned index, GiProfile *info) {
    FAIL("nvmlDeviceGetGpuInstanceProfileInfo");
    if (info->version != 0x02000098) return INVALID; /* nvml.h: info->version is invalid */
    GiProfile1 p;
    int code = gi_profile(device, index, &p);
    if (code) return code;
    *info = (GiProfile){ 0x02000098, p.id, p.p2p, p.slices, p.count, p.sms, p.ce, p.dec, p.enc, p.jpeg, p.ofa, p.mb, "" };
    strcpy(info->name, index ? "MIG 3g.20gb" : "MIG 1g.5gb");
    return OK;
}
#endif
int nvmlDeviceGetGpuInstancePossiblePlacements_v2(void *device, unsigned id, Placement *places, unsigned *count) {
    FAIL("nvmlDeviceGetGpuInstancePossiblePlacements");
    if (device != GPU || (id != 9 && id != 19)) return INVALID;
    *count = id == 9 ? 2 : 7;
    for (unsigned i = 0; places && i < *count; i++) places[i] = id == 9 ? (Placement){ 4 * i, 4 } : (Placement){ i, 1 };
    return OK;
}
int nvmlDeviceCreateGpuInstanceWithPlacement(void *device, unsigned id, const Placement *place, void **handle) {
    FAIL("nvmlDeviceCreateGpuInstanceWithPlacement");
    if (device != GPU || (id != 9 && id != 19)) return INVALID;
    GUARD();
    if (!current) return UNSUPPORTED;
    if (getenv("NVML_STUB_PID")) return IN_USE;
    if (place->size != (id == 9 ? 4 : 1) || (id == 9 ? place->start % 4 || place->start > 4 : place->start > 6)) return FULL;
    unsigned free_slot = getenv("NVML_STUB_REUSE") ? POOL : made_so_far, slices = id == 9 ? 3 : 1;
    for (int i = POOL - 1; i >= 0; i--) {
        Placement other = instances[i].place;
        if (!instances[i].used) { if (getenv("NVML_STUB_REUSE")) free_slot = (unsigned)i; continue; }
        if (place->start < other.start + other.size && other.start < place->start + place->size) return FULL;
        slices += slices_of(&instances[i]);
    }
    if (free_slot >= POOL || slices > 7) return FULL;
    made_so_far++;
    instances[free_slot] = (Instance){ 1, id == 9 ? 2 - place->start / 4 : 7 + place->start, id, *place, 0, 0, 0 };
    *handle = &instances[free_slot];
    return OK;
}
int nvmlDeviceGetGpuInstances(void *device, unsigned id, void **handles, unsigned *count) {
    FAIL("nvmlDeviceGetGpuInstances");
    if (device != GPU || (id != 9 && id != 19)) return INVALID;
    if (!current) return UNSUPPORTED;
    GUARD();
    *count = 0;
    for (int i = 0; i < POOL; i++) if (instances[i].used && instances[i].profile == id) handles[(*count)++] = &instances[i];
    return OK;
}
int nvmlDeviceGetGpuInstanceById(void *device, unsigned id, void **handle) {
    FAIL("nvmlDeviceGetGpuInstanceById");
    if (device != GPU) return INVALID;
    if (!current) return UNSUPPORTED;
    GUARD();
    for (int i = 0; i < POOL; i++) if (instances[i].used && instances[i].id == id) { *handle = &instances[i]; return OK; }
    return MISSING;
}
int nvmlGpuInstanceGetInfo(void *handle, GiInfo *info) {
    FAIL("nvmlGpuInstanceGetInfo");
    Instance *i = instance_of(handle);
    if (!i) return INVALID;
    *info = (GiInfo){ GPU, i->id, i->profile, i->place };
    return OK;
}
int nvmlGpuInstanceDestroy(void *handle) {
    FAIL("nvmlGpuInstanceDestroy");
    GUARD();
    Instance *i = instance_of(handle);
    if (!i) return INVALID;
    if (i->ci_used || getenv("NVML_STUB_BUSY")) return IN_USE;
    i->used = 0;
    return OK;
}
int nvmlGpuInstanceGetComputeInstanceProfileInfo(void *handle, unsigned index, unsigned engine, CiProfile1 *info) { FAIL("nvmlGpuInstanceGetComputeInstanceProfileInfo"); return ci_profile(handle, index, engine, info); }
#ifndef NVML_STUB_OLD
int nvmlGpuInstanceGetComputeInstanceProfileInfoV(void *handle, unsigned index, unsigned engine, CiProfile *info) {
    FAIL("nvmlGpuInstanceGetComputeInstanceProfileInfo");
    if (info->version != 0x02000088) return INVALID;
    CiProfile1 p;
    int code = ci_profile(handle, index, engine, &p);
    if (code) return code;
    *info = (CiProfile){ 0x02000088, p.id, p.slices, p.count, p.sms, p.ce, p.dec, p.enc, p.jpeg, p.ofa, "MIG" };
    return OK;
}
#endif
int nvmlGpuInstanceCreateComputeInstance(void *handle, unsigned profile, void **made) {
    FAIL("nvmlGpuInstanceCreateComputeInstance");
    GUARD();
    Instance *i = instance_of(handle);
    if (!i || profile < CI_ID_BASE || profile >= CI_ID_BASE + slices_of(i)) return INVALID;
    if (i->ci_used) return FULL;
    for (i->mig_index = 0; by_index(i->mig_index); i->mig_index++) {}
    i->ci_used = profile - CI_ID_BASE + 1;
    *made = &i->ci_used;
    return OK;
}
int nvmlGpuInstanceGetComputeInstances(void *handle, unsigned profile, void **handles, unsigned *count) {
    FAIL("nvmlGpuInstanceGetComputeInstances");
    Instance *i = instance_of(handle);
    if (!i || profile < CI_ID_BASE || profile >= CI_ID_BASE + slices_of(i)) return INVALID;
    *count = i->ci_used == profile - CI_ID_BASE + 1;
    if (*count) handles[0] = &i->ci_used;
    return OK;
}
int nvmlGpuInstanceGetComputeInstanceById(void *handle, unsigned id, void **made) {
    FAIL("nvmlGpuInstanceGetComputeInstanceById");
    Instance *i = instance_of(handle);
    if (!i) return INVALID;
    *made = &i->ci_used;
    return i->ci_used && !id ? OK : MISSING;
}
int nvmlComputeInstanceGetInfo_v2(void *handle, CiInfo *info) {
    FAIL("nvmlComputeInstanceGetInfo_v2");
    Instance *i = by_part(handle, 0);
    if (!i) return INVALID;
    *info = (CiInfo){ &i->ci, i, 0, i->ci_used - 1 + CI_ID_BASE, { 0, i->ci_used } };
    return OK;
}
int nvmlComputeInstanceDestroy(void *handle) {
    FAIL("nvmlComputeInstanceDestroy");
    GUARD();
    Instance *i = by_part(handle, 0);
    if (!i) return INVALID;
    if (getenv("NVML_STUB_BUSY")) return IN_USE;
    i->ci_used = 0;
    return OK;
}
int nvmlDeviceGetMaxMigDeviceCount(void *device, unsigned *count) { FAIL("nvmlDeviceGetMaxMigDeviceCount"); *count = current ? 7 : 0; return device == GPU ? OK : INVALID; }
int nvmlDeviceGetMigDeviceHandleByIndex(void *device, unsigned index, void **mig) {
    FAIL("nvmlDeviceGetMigDeviceHandleByIndex");
    if (device != GPU) return INVALID;
    if (!current) return UNSUPPORTED;
    if (index >= 7) return INVALID;
    Instance *i = by_index(index);
    if (i) *mig = &i->ci;
    return i ? OK : MISSING;
}
int nvmlDeviceGetGpuInstanceId(void *mig, unsigned *id) { FAIL("nvmlDeviceGetGpuInstanceId"); Instance *i = by_part(mig, 1); if (!i) return INVALID; *id = i->id; return OK; }
int nvmlDeviceGetComputeInstanceId(void *mig, unsigned *id) { FAIL("nvmlDeviceGetComputeInstanceId"); *id = 0; return by_part(mig, 1) ? OK : INVALID; }
const char *nvmlErrorString(int code) { return code == IN_USE ? "In use by another client" : "stub error"; }
int nvmlDeviceGetPowerUsage(void *device, unsigned *milliwatts) { FAIL("nvmlDeviceGetPowerUsage"); *milliwatts = 62000; return device == GPU ? OK : INVALID; }
int nvmlDeviceGetEnforcedPowerLimit(void *device, unsigned *milliwatts) { FAIL("nvmlDeviceGetEnforcedPowerLimit"); *milliwatts = 400000; return device == GPU ? OK : INVALID; }
int nvmlDeviceGetTemperature(void *device, unsigned sensor, unsigned *degrees) { FAIL("nvmlDeviceGetTemperature"); *degrees = 34; return device == GPU && !sensor ? OK : INVALID; }
int nvmlDeviceGetClockInfo(void *device, unsigned type, unsigned *mhz) { FAIL("nvmlDeviceGetClockInfo"); *mhz = 1410; return device != GPU ? INVALID : type == 1 ? OK : UNSUPPORTED; }
int nvmlDeviceGetMaxClockInfo(void *device, unsigned type, unsigned *mhz) { FAIL("nvmlDeviceGetMaxClockInfo"); *mhz = 1410; return device != GPU ? INVALID : type == 1 ? OK : UNSUPPORTED; }
int nvmlDeviceGetCurrentClocksThrottleReasons(void *device, unsigned long long *reasons) { FAIL("nvmlDeviceGetCurrentClocksThrottleReasons"); *reasons = 0; return device == GPU ? OK : INVALID; }
int nvmlDeviceGetUtilizationRates(void *device, unsigned *gpu_memory) { FAIL("nvmlDeviceGetUtilizationRates"); gpu_memory[0] = gpu_memory[1] = 0; return device != GPU ? INVALID : current ? UNSUPPORTED : OK; }
#ifndef NVML_STUB_OLD
typedef struct { unsigned taken; const void *of; } Sample;
typedef struct { unsigned id, ret; double value; const char *names[3]; } Metric;
typedef struct { unsigned version, count; Sample *samples[2]; Metric metrics[]; } Metrics;
static int take(const void *of, Sample *sample) {
    if (!getenv("NVML_STUB_GPM")) return UNSUPPORTED;
    GUARD();
    *sample = (Sample){ 1, of };
    return OK;
}
int nvmlGpmQueryDeviceSupport(void *device, unsigned *version_supported) { FAIL("nvmlGpmQueryDeviceSupport"); version_supported[1] = getenv("NVML_STUB_GPM") != NULL; return device == GPU ? OK : INVALID; }
int nvmlGpmSampleAlloc(Sample **sample) { FAIL("nvmlGpmSampleAlloc"); *sample = calloc(1, sizeof **sample); return OK; }
int nvmlGpmSampleFree(Sample *sample) { FAIL("nvmlGpmSampleFree"); free(sample); return OK; }
int nvmlGpmSampleGet(void *device, Sample *sample) {
    FAIL("nvmlGpmSampleGet");
    Instance *i = by_part(device, 1);
    return !i && device != GPU ? INVALID : take(i ? (void *)i : GPU, sample);
}
int nvmlGpmMigSampleGet(void *device, unsigned id, Sample *sample) {
    FAIL("nvmlGpmMigSampleGet");
    if (device != GPU || !current) return INVALID;
    for (int i = 0; i < POOL; i++) if (instances[i].used && instances[i].id == id) return take(&instances[i], sample);
    return INVALID;
}
int nvmlGpmMetricsGet(Metrics *asked) {
    FAIL("nvmlGpmMetricsGet");
    if (asked->version != 1 || !asked->samples[0]->taken || !asked->samples[1]->taken || asked->samples[0]->of != asked->samples[1]->of) return INVALID;
    for (unsigned n = 0; n < asked->count; n++) {
        asked->metrics[n].ret = asked->metrics[n].id == 1 ? OK : UNSUPPORTED;
        asked->metrics[n].value = asked->metrics[n].id == 1 ? atof(getenv("NVML_STUB_GPM")) : 0;
    }
    return OK;
}
#endif

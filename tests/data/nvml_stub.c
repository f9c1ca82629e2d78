/* A small libnvidia-ml.so.1 for tests: NVML's C interface (nvml.h, NVIDIA) for one GPU with two profiles, so that the real pynvml
   and ctypes run the whole life cycle. Environment: NVML_STUB_FAIL="function=code" makes one function fail,
   NVML_STUB_ACTIVATION the status that a mode change answers. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct { unsigned start, size; } Placement;
typedef struct { unsigned used, id, profile; Placement place; unsigned ci, ci_used; } Instance;
typedef struct { unsigned version, id, p2p, slices, count, sms, ce, dec, enc, jpeg, ofa; unsigned long long mb; char name[96]; } GiProfile;
typedef struct { unsigned version, id, slices, count, sms, ce, dec, enc, jpeg, ofa; char name[96]; } CiProfile;
typedef struct { void *device; unsigned id, profile; Placement place; } GiInfo;
typedef struct { void *device, *gi; unsigned id, profile; Placement place; } CiInfo;
typedef struct { char legacy[16]; unsigned domain, bus, device, pci, subsystem; char bus_id[32]; } Pci;
typedef struct { unsigned field, scope; long long stamp, latency; unsigned type, ret; union { double d; unsigned u; } value; } Field;
typedef struct { unsigned pid; unsigned long long used; unsigned gi, ci; } Process;

enum { OK = 0, INVALID = 2, UNSUPPORTED = 3, NO_PERMISSION = 4, MISSING = 6, SMALL = 7, IN_USE = 19, FULL = 23 };
static int gpu_object, sessions;
static unsigned current, pending;
static Instance instances[8];
#define GPU ((void *)&gpu_object)
#define FAIL(name) do { int code = planned(name); if (code) return code; if (!sessions) return 1; } while (0)

static int planned(const char *name) {
    const char *plan = getenv("NVML_STUB_FAIL"), *at = plan ? strchr(plan, '=') : NULL;
    return at && strlen(name) == (size_t)(at - plan) && !strncmp(plan, name, (size_t)(at - plan)) ? atoi(at + 1) : OK;
}
static Instance *instance_of(void *handle) {
    for (int i = 0; i < 8; i++) if (handle == &instances[i] && instances[i].used) return &instances[i];
    return NULL;
}
static Instance *by_part(void *handle, int mig) { /* compute instances and MIG devices point into their instance */
    for (int i = 0; i < 8; i++)
        if (instances[i].ci_used && handle == (mig ? (void *)&instances[i].ci : (void *)&instances[i].ci_used)) return &instances[i];
    return NULL;
}

int nvmlInitWithFlags(unsigned flags) { int code = planned("nvmlInit"); if (!code) sessions++; return flags ? INVALID : code; }
int nvmlShutdown(void) { sessions--; return OK; }
int nvmlSystemGetDriverVersion(char *text, unsigned size) { snprintf(text, size, "580.65.06"); return OK; }
int nvmlDeviceGetCount_v2(unsigned *count) { FAIL("nvmlDeviceGetCount"); *count = 1; return OK; }
int nvmlDeviceGetHandleByIndex_v2(unsigned index, void **device) { FAIL("nvmlDeviceGetHandleByIndex"); *device = GPU; return index ? INVALID : OK; }
int nvmlDeviceGetUUID(void *device, char *text, unsigned size) {
    FAIL("nvmlDeviceGetUUID");
    Instance *i = by_part(device, 1);
    if (device == GPU) snprintf(text, size, "GPU-stub");
    else if (i) snprintf(text, size, "MIG-stub-%u-0", i->id);
    else return INVALID;
    return OK;
}
int nvmlDeviceGetHandleByUUID(const char *uuid, void **device) {
    char text[96];
    for (int i = 0; i < 8; i++) {
        snprintf(text, sizeof text, "MIG-stub-%u-0", instances[i].id);
        if (instances[i].ci_used && !strcmp(uuid, text)) { *device = &instances[i].ci; return OK; }
    }
    *device = GPU;
    return strcmp(uuid, "GPU-stub") ? MISSING : OK;
}
int nvmlDeviceGetName(void *device, char *text, unsigned size) {
    Instance *i = by_part(device, 1);
    if (i) snprintf(text, size, "NVIDIA A100-SXM4-40GB MIG %s", i->profile == 9 ? "3g.20gb" : "1g.5gb");
    else snprintf(text, size, "NVIDIA A100-SXM4-40GB");
    return OK;
}
int nvmlDeviceGetPciInfo_v3(void *device, Pci *pci) { memset(pci, 0, sizeof *pci); strcpy(pci->bus_id, "00000000:10:00.0"); return device == GPU ? OK : INVALID; }
int nvmlDeviceGetMinorNumber(void *device, unsigned *minor) { *minor = 0; return device == GPU ? OK : INVALID; }
int nvmlDeviceGetMemoryInfo(void *device, unsigned long long *total_free_used) {
    Instance *i = by_part(device, 1);
    if (!i && device != GPU) return INVALID;
    total_free_used[0] = (i ? (i->profile == 9 ? 19968ULL : 4864ULL) : 40960ULL) << 20;
    total_free_used[1] = total_free_used[0];
    total_free_used[2] = 0;
    return OK;
}
int nvmlDeviceGetFieldValues(void *device, int count, Field *fields) {
    for (int i = 0; i < count; i++) { fields[i].ret = OK; fields[i].value.u = 0; }
    return device == GPU ? OK : INVALID;
}
int nvmlDeviceGetComputeRunningProcesses_v3(void *device, unsigned *count, Process *processes) {
    FAIL("nvmlDeviceGetComputeRunningProcesses_v3");
    if (device != GPU) { *count = 0; return OK; }
    if (*count < 1) { *count = 1; return SMALL; }
    *count = 1;
    processes[0] = (Process){ (unsigned)atoi(getenv("NVML_STUB_PID") ? getenv("NVML_STUB_PID") : "1"), 3 << 20, 0xFFFFFFFF, 0xFFFFFFFF };
    return OK;
}
int nvmlDeviceGetMigMode(void *device, unsigned *now, unsigned *later) { FAIL("nvmlDeviceGetMigMode"); *now = current; *later = pending; return device == GPU ? OK : INVALID; }
int nvmlDeviceSetMigMode(void *device, unsigned mode, unsigned *status) {
    FAIL("nvmlDeviceSetMigMode");
    *status = getenv("NVML_STUB_ACTIVATION") ? (unsigned)atoi(getenv("NVML_STUB_ACTIVATION")) : 0;
    pending = mode;
    if (!*status) { current = mode; memset(instances, 0, sizeof instances); }
    return device == GPU ? OK : INVALID;
}
int nvmlDeviceGetGpuInstanceProfileInfoV(void *device, unsigned index, GiProfile *info) {
    FAIL("nvmlDeviceGetGpuInstanceProfileInfo");
    if (index >= 18 || device != GPU || info->version != 0x02000098) return INVALID;
    if (index != 0 && index != 2) return UNSUPPORTED;
    *info = index ? (GiProfile){ 0x02000098, 9, 0, 3, 2, 42, 3, 2, 0, 0, 0, 19968, "MIG 3g.20gb" } : (GiProfile){ 0x02000098, 19, 0, 1, 7, 14, 1, 0, 0, 0, 0, 4864, "MIG 1g.5gb" };
    return OK;
}
int nvmlDeviceGetGpuInstancePossiblePlacements_v2(void *device, unsigned id, Placement *places, unsigned *count) {
    if (device != GPU || (id != 9 && id != 19)) return INVALID;
    *count = id == 9 ? 2 : 7;
    for (unsigned i = 0; places && i < *count; i++) places[i] = id == 9 ? (Placement){ 4 * i, 4 } : (Placement){ i, 1 };
    return OK;
}
int nvmlDeviceCreateGpuInstanceWithPlacement(void *device, unsigned id, const Placement *place, void **handle) {
    FAIL("nvmlDeviceCreateGpuInstanceWithPlacement");
    if (!current) return UNSUPPORTED;
    if (device != GPU || (id != 9 && id != 19) || place->size != (id == 9 ? 4 : 1)) return INVALID;
    int free_slot = -1;
    for (int i = 7; i >= 0; i--) {
        Placement other = instances[i].place;
        if (!instances[i].used) free_slot = i;
        else if (place->start < other.start + other.size && other.start < place->start + place->size) return FULL;
    }
    if (free_slot < 0) return FULL;
    instances[free_slot] = (Instance){ 1, id == 9 ? 2 - place->start / 4 : 7 + place->start, id, *place, 0, 0 };
    *handle = &instances[free_slot];
    return OK;
}
int nvmlDeviceGetGpuInstances(void *device, unsigned id, void **handles, unsigned *count) {
    FAIL("nvmlDeviceGetGpuInstances");
    *count = 0;
    for (int i = 0; i < 8; i++) if (instances[i].used && instances[i].profile == id) handles[(*count)++] = &instances[i];
    return device == GPU ? OK : INVALID;
}
int nvmlDeviceGetGpuInstanceById(void *device, unsigned id, void **handle) {
    for (int i = 0; i < 8; i++) if (instances[i].used && instances[i].id == id) { *handle = &instances[i]; return device == GPU ? OK : INVALID; }
    return MISSING;
}
int nvmlGpuInstanceGetInfo(void *handle, GiInfo *info) {
    Instance *i = instance_of(handle);
    if (!i) return INVALID;
    *info = (GiInfo){ GPU, i->id, i->profile, i->place };
    return OK;
}
int nvmlGpuInstanceDestroy(void *handle) {
    FAIL("nvmlGpuInstanceDestroy");
    Instance *i = instance_of(handle);
    if (!i) return INVALID;
    if (i->ci_used) return IN_USE;
    i->used = 0;
    return OK;
}
int nvmlGpuInstanceGetComputeInstanceProfileInfoV(void *handle, unsigned index, unsigned engine, CiProfile *info) {
    Instance *i = instance_of(handle);
    if (!i || index >= 9 || engine || info->version != 0x02000088) return INVALID;
    if (index != 0 && !(index == 2 && i->profile == 9)) return UNSUPPORTED;
    *info = (CiProfile){ 0x02000088, index, index + 1, index ? 1 : (i->profile == 9 ? 3 : 1), 14 * (index + 1), 0, 0, 0, 0, 0, "MIG" };
    return OK;
}
int nvmlGpuInstanceCreateComputeInstance(void *handle, unsigned profile, void **made) {
    FAIL("nvmlGpuInstanceCreateComputeInstance");
    Instance *i = instance_of(handle);
    if (!i) return INVALID;
    if (i->ci_used) return FULL;
    i->ci_used = profile + 1;
    *made = &i->ci_used;
    return OK;
}
int nvmlGpuInstanceGetComputeInstances(void *handle, unsigned profile, void **handles, unsigned *count) {
    Instance *i = instance_of(handle);
    *count = i && i->ci_used == profile + 1;
    if (*count) handles[0] = &i->ci_used;
    return i ? OK : INVALID;
}
int nvmlGpuInstanceGetComputeInstanceById(void *handle, unsigned id, void **made) {
    Instance *i = instance_of(handle);
    if (!i) return INVALID;
    *made = &i->ci_used;
    return i->ci_used && !id ? OK : MISSING;
}
int nvmlComputeInstanceGetInfo_v2(void *handle, CiInfo *info) {
    Instance *i = by_part(handle, 0);
    if (!i) return INVALID;
    *info = (CiInfo){ &i->ci, i, 0, i->ci_used - 1, { 0, i->ci_used } };
    return OK;
}
int nvmlComputeInstanceDestroy(void *handle) {
    FAIL("nvmlComputeInstanceDestroy");
    Instance *i = by_part(handle, 0);
    if (!i) return INVALID;
    i->ci_used = 0;
    return OK;
}
int nvmlDeviceGetMaxMigDeviceCount(void *device, unsigned *count) { *count = current ? 7 : 0; return device == GPU ? OK : INVALID; }
int nvmlDeviceGetMigDeviceHandleByIndex(void *device, unsigned index, void **mig) {
    if (device != GPU || index >= 7) return INVALID;
    *mig = &instances[index].ci;
    return instances[index].ci_used ? OK : MISSING;
}
int nvmlDeviceGetGpuInstanceId(void *mig, unsigned *id) { Instance *i = by_part(mig, 1); if (!i) return INVALID; *id = i->id; return OK; }
int nvmlDeviceGetComputeInstanceId(void *mig, unsigned *id) { *id = 0; return by_part(mig, 1) ? OK : INVALID; }
const char *nvmlErrorString(int code) { return code == IN_USE ? "In use by another client" : "stub error"; }

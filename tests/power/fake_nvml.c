/* A stand-in for libnvidia-ml.so.1: answers the calls of the sampler from a state file.
 *
 * The file named by FAKE_NVML_STATE holds "key value" lines. It is parsed again when it changes, so a
 * test rewrites it and the running process sees the change. A key with a device index, such as
 * energy_mj.0, holds for that device; without one it holds for all. Values not given have defaults.
 *
 *   count, driver, advance, t0_ns, update_ms, rc_init, rc_count        whole library
 *   uuid, name, arch, mig, power_mw, instant_mw, energy_mj, limit_mw,  per device
 *   sensor_us, rc_handle, rc_power, rc_energy, rc_instant, rc_limit, rc_mig, processes, rc_processes, util, rc_util
 *   average_mw, energy83_mj, energy191_mj, module_instant_mw, module_average_mw, module_energy_mj  fields that are
 *   not supported unless given: 185, 83, 191 of the GPU, and 186, 185, 191 of the module
 *
 * advance 1: the counter grows from energy_mj by power_mw x time since t0_ns (CLOCK_MONOTONIC), in steps
 * of update_ms. A handle belongs to the session that gave it out; later ones refuse it, as NVML does.
 */
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

#define MAX_KEYS 512
#define SUCCESS 0
#define UNINITIALIZED 1
#define INVALID_ARGUMENT 2
#define NOT_SUPPORTED 3
#define INSUFFICIENT_SIZE 7

typedef struct { char key[32]; char value[96]; } entry_t;
typedef struct {
  uint32_t fieldId, scopeId;
  int64_t timestamp, latencyUsec;
  int32_t valueType, nvmlReturn;
  union { double dVal; uint32_t uiVal; uint64_t ullVal; } value;
} field_t;
typedef struct { uint32_t pid; uint64_t memory; uint32_t instance, computeInstance; } process_t;
typedef struct { uint32_t gpu, memory; } utilization_t;
typedef struct {
  char busIdLegacy[16];
  uint32_t domain, bus, device, pciDeviceId, pciSubSystemId;
  char busId[32];
} pci_t;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static entry_t entries[MAX_KEYS];
static int n_entries;
static struct stat seen;
static char seen_path[1024];
static int sessions, session, opened;
static uint64_t energy_calls;

static void refresh(void) {
  const char *path = getenv("FAKE_NVML_STATE");
  struct stat now;
  if (!path || stat(path, &now) != 0) { n_entries = 0; seen_path[0] = 0; return; }
  if (!strcmp(path, seen_path) && now.st_ino == seen.st_ino && now.st_size == seen.st_size &&
      now.st_mtim.tv_sec == seen.st_mtim.tv_sec && now.st_mtim.tv_nsec == seen.st_mtim.tv_nsec)
    return;
  FILE *file = fopen(path, "r");
  if (!file) return;
  char line[160];
  n_entries = 0;
  while (n_entries < MAX_KEYS && fgets(line, sizeof line, file))
    if (sscanf(line, "%31s %95[^\n]", entries[n_entries].key, entries[n_entries].value) == 2) n_entries++;
  fclose(file);
  seen = now;
  snprintf(seen_path, sizeof seen_path, "%s", path);
}

static const char *lookup(const char *key) {
  for (int i = n_entries - 1; i >= 0; i--)
    if (!strcmp(entries[i].key, key)) return entries[i].value;
  return NULL;
}

static const char *text(const char *key, int device) {
  char full[64];
  const char *found = NULL;
  if (device >= 0) {
    snprintf(full, sizeof full, "%s.%d", key, device);
    found = lookup(full);
  }
  return found ? found : lookup(key);
}

static uint64_t number(const char *key, int device, uint64_t otherwise) {
  const char *found = text(key, device);
  return found ? strtoull(found, NULL, 10) : otherwise;
}

static int64_t clock_us(clockid_t id) {
  struct timespec now;
  clock_gettime(id, &now);
  return (int64_t)now.tv_sec * 1000000 + now.tv_nsec / 1000;
}

/* handle = session << 8 | index + 1 */
static int device_of(void *handle, int *device) {
  uintptr_t h = (uintptr_t)handle;
  if (!session) return UNINITIALIZED;
  *device = (int)(h & 0xff) - 1;
  if ((int)(h >> 8) != session || *device < 0) return INVALID_ARGUMENT;
  return SUCCESS;
}

#define ENTER() pthread_mutex_lock(&lock); refresh(); int rc = SUCCESS
#define LEAVE() pthread_mutex_unlock(&lock); return rc
#define WITH_DEVICE(key) ENTER(); int d = 0; rc = device_of(handle, &d); \
  if (rc == SUCCESS && (key)) rc = (int)number((key), d, SUCCESS); \
  if (rc == SUCCESS)

int nvmlInitWithFlags(unsigned flags) {
  (void)flags;
  ENTER();
  rc = (int)number("rc_init", -1, SUCCESS);
  if (rc == SUCCESS && !opened++) session = ++sessions; /* NVML counts starts; the last shutdown ends the session */
  LEAVE();
}
int nvmlShutdown(void) {
  ENTER();
  if (!opened) rc = UNINITIALIZED;
  else if (!--opened) session = 0;
  LEAVE();
}
const char *nvmlErrorString(int code) {
  static char message[40];
  snprintf(message, sizeof message, "stand-in error %d", code);
  return message;
}
int nvmlSystemGetDriverVersion(char *out, unsigned length) {
  ENTER();
  if (!session) rc = UNINITIALIZED;
  else { const char *v = text("driver", -1); snprintf(out, length, "%s", v ? v : "570.86.10"); }
  LEAVE();
}
int nvmlDeviceGetCount_v2(unsigned *count) {
  ENTER();
  if (!session) rc = UNINITIALIZED;
  else { rc = (int)number("rc_count", -1, SUCCESS); *count = (unsigned)number("count", -1, 0); }
  LEAVE();
}
int nvmlDeviceGetHandleByIndex_v2(unsigned index, void **handle) {
  ENTER();
  if (!session) rc = UNINITIALIZED;
  else if (index >= number("count", -1, 0)) rc = INVALID_ARGUMENT;
  else {
    rc = (int)number("rc_handle", (int)index, SUCCESS);
    *handle = (void *)((uintptr_t)session << 8 | (index + 1));
  }
  LEAVE();
}
int nvmlDeviceGetUUID(void *handle, char *out, unsigned length) {
  WITH_DEVICE(NULL) {
    const char *v = text("uuid", d);
    if (v) snprintf(out, length, "%s", v);
    else snprintf(out, length, "GPU-00000000-0000-0000-0000-%012d", d);
  }
  LEAVE();
}
int nvmlDeviceGetName(void *handle, char *out, unsigned length) {
  WITH_DEVICE(NULL) { const char *v = text("name", d); snprintf(out, length, "%s", v ? v : "NVIDIA H100 80GB HBM3"); }
  LEAVE();
}
int nvmlDeviceGetArchitecture(void *handle, unsigned *arch) {
  WITH_DEVICE(NULL) *arch = (unsigned)number("arch", d, 9);
  LEAVE();
}
int nvmlDeviceGetPciInfo_v3(void *handle, pci_t *pci) {
  WITH_DEVICE(NULL) {
    memset(pci, 0, sizeof *pci);
    snprintf(pci->busId, sizeof pci->busId, "00000000:%02X:00.0", 0x17 + d);
  }
  LEAVE();
}
int nvmlDeviceGetMigMode(void *handle, unsigned *current, unsigned *pending) {
  WITH_DEVICE("rc_mig") *current = *pending = (unsigned)number("mig", d, 0);
  LEAVE();
}
int nvmlDeviceGetEnforcedPowerLimit(void *handle, unsigned *mw) {
  WITH_DEVICE("rc_limit") *mw = (unsigned)number("limit_mw", d, 700000);
  LEAVE();
}
int nvmlDeviceGetPowerUsage(void *handle, unsigned *mw) {
  WITH_DEVICE("rc_power") *mw = (unsigned)number("power_mw", d, 300000);
  LEAVE();
}
int nvmlDeviceGetTotalEnergyConsumption(void *handle, uint64_t *mj) {
  WITH_DEVICE("rc_energy") {
    energy_calls++;
    *mj = number("energy_mj", d, 0);
    if (number("advance", d, 0)) {
      uint64_t update_us = number("update_ms", -1, 100) * 1000;
      uint64_t elapsed_us = (uint64_t)clock_us(CLOCK_MONOTONIC) - number("t0_ns", -1, 0) / 1000;
      if (update_us) elapsed_us -= elapsed_us % update_us;
      *mj += number("power_mw", d, 300000) * elapsed_us / 1000000;
    }
  }
  LEAVE();
}
/* The value of a field, by its key, or NOT_SUPPORTED where the state does not give it. */
static int field_value(const char *key, int device, field_t *field) {
  if (!key || !text(key, device)) return NOT_SUPPORTED;
  field->value.ullVal = number(key, device, 0);
  return SUCCESS;
}
int nvmlDeviceGetFieldValues(void *handle, int count, field_t *fields) {
  WITH_DEVICE(NULL) for (int i = 0; i < count; i++) {
    field_t *f = &fields[i];
    int module = f->scopeId == 1;
    f->timestamp = (int64_t)number("sensor_us", d, (uint64_t)clock_us(CLOCK_REALTIME));
    f->latencyUsec = 10;
    f->valueType = f->fieldId == 83 || f->fieldId == 191 ? 3 : 1;
    f->value.ullVal = 0;
    if (f->fieldId == 186 && !module) {
      f->nvmlReturn = (int)number("rc_instant", d, SUCCESS);
      f->value.uiVal = (uint32_t)number("instant_mw", d, number("power_mw", d, 300000));
    } else {
      f->nvmlReturn = field_value(
        f->fieldId == 186 ? "module_instant_mw" :
        f->fieldId == 185 ? (module ? "module_average_mw" : "average_mw") :
        f->fieldId == 191 ? (module ? "module_energy_mj" : "energy191_mj") :
        f->fieldId == 83 ? "energy83_mj" : NULL, d, f);
    }
  }
  LEAVE();
}
int nvmlDeviceGetComputeRunningProcesses_v3(void *handle, unsigned *count, process_t *processes) {
  WITH_DEVICE("rc_processes") {
    unsigned n = (unsigned)number("processes", d, 0);
    if (n && (!processes || *count < n)) rc = INSUFFICIENT_SIZE;
    else for (unsigned i = 0; i < n; i++) processes[i] = (process_t){1000 + i, 1 << 30, 0xffffffff, 0xffffffff};
    *count = n;
  }
  LEAVE();
}
int nvmlDeviceGetUtilizationRates(void *handle, utilization_t *rates) {
  WITH_DEVICE("rc_util") { rates->gpu = (unsigned)number("util", d, 0); rates->memory = 0; }
  LEAVE();
}
/* Not of NVML: how often the counter was read, for tests that count. */
uint64_t fake_energy_calls(void) { return energy_calls; }

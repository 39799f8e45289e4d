// Stands in for what an operating system has and a browser has not, as the linker asks for it: no shared objects, no
// affinity, no other processes. Commands never get here: they are answered from what they are given
// (base/surroundings.h).
#include <cerrno>

#include <sched.h>
#include <sys/types.h>

extern "C" {
void* dlopen(const char*, int) { return nullptr; }
void* dlsym(void*, const char*) { return nullptr; }
int dlclose(void*) { return 0; }
int sched_getaffinity(pid_t, size_t, cpu_set_t*) { return -1; }
int sched_setaffinity(pid_t, size_t, const cpu_set_t*) { return -1; }
int __sched_cpucount(size_t, const cpu_set_t*) { return 1; }
int prctl(int, ...) { return -1; }
}

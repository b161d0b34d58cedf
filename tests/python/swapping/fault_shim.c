// Preloaded into a test's child: makes what lms does with its spill files fail, at a call that the test chooses.
//
// Only files that are open in the directory LMS_FAULT_DIRECTORY and have no name are touched. The test arms it through
// ctypes: `fault_kind` 'w' (pwrite), 'r' (pread) or 'f' (fallocate); `fault_after` such calls succeed, the next fails
// with `fault_errno`, once, and `fault_kind` is 0 again. 's' lets every pwrite and pread move 512 bytes at most (while
// armed), 'i' lets every second call be interrupted (EINTR), 'h' holds every pwrite until it is no longer armed.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>
#include <unistd.h>

atomic_int fault_kind, fault_after, fault_errno, fault_hits;

static int is_spill(int fd) {
  char link[64], target[4096];
  const char* const directory = getenv("LMS_FAULT_DIRECTORY");
  if (directory == NULL) return 0;
  snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
  const ssize_t length = readlink(link, target, sizeof(target) - 1);
  if (length < 0) return 0;
  target[length] = '\0';
  return strncmp(target, directory, strlen(directory)) == 0 && strstr(target, "(deleted)") != NULL;
}

// Whether this call is to fail.
static int due(int kind, int fd) {
  if (atomic_load(&fault_kind) != kind || !is_spill(fd)) return 0;
  if (atomic_fetch_sub(&fault_after, 1) > 0) return 0;
  if (kind == 'f') {  // a disk that is full stays full
    atomic_fetch_add(&fault_hits, 1);
    errno = atomic_load(&fault_errno);
    return 1;
  }
  int armed = kind;
  if (!atomic_compare_exchange_strong(&fault_kind, &armed, 0)) return 0;
  atomic_fetch_add(&fault_hits, 1);
  errno = atomic_load(&fault_errno);
  return 1;
}

static int interrupted(int fd) {
  if (atomic_load(&fault_kind) != 'i' || !is_spill(fd) || atomic_fetch_add(&fault_hits, 1) % 2 == 0) return 0;
  errno = EINTR;
  return 1;
}

static size_t shortened(int fd, size_t bytes) {
  if (atomic_load(&fault_kind) != 's' || !is_spill(fd) || bytes <= 512) return bytes;
  atomic_fetch_add(&fault_hits, 1);
  return 512;
}

#define NEXT(type, name) ((type)dlsym(RTLD_NEXT, name))
typedef ssize_t (*write_type)(int, const void*, size_t, off_t);
typedef ssize_t (*read_type)(int, void*, size_t, off_t);
typedef int (*fallocate_type)(int, int, off_t, off_t);

static ssize_t write_through(const char* name, int fd, const void* data, size_t bytes, off_t offset) {
  while (atomic_load(&fault_kind) == 'h' && is_spill(fd)) usleep(1000);
  if (due('w', fd) || interrupted(fd)) return -1;
  return NEXT(write_type, name)(fd, data, shortened(fd, bytes), offset);
}

static ssize_t read_through(const char* name, int fd, void* data, size_t bytes, off_t offset) {
  if (due('r', fd) || interrupted(fd)) return -1;
  return NEXT(read_type, name)(fd, data, shortened(fd, bytes), offset);
}

static int fallocate_through(const char* name, int fd, int mode, off_t offset, off_t bytes) {
  return due('f', fd) ? -1 : NEXT(fallocate_type, name)(fd, mode, offset, bytes);
}

ssize_t pwrite(int fd, const void* data, size_t bytes, off_t at) {
  return write_through("pwrite", fd, data, bytes, at);
}
ssize_t pwrite64(int fd, const void* data, size_t bytes, off_t at) {
  return write_through("pwrite64", fd, data, bytes, at);
}
ssize_t pread(int fd, void* data, size_t bytes, off_t at) { return read_through("pread", fd, data, bytes, at); }
ssize_t pread64(int fd, void* data, size_t bytes, off_t at) { return read_through("pread64", fd, data, bytes, at); }
int fallocate(int fd, int mode, off_t at, off_t bytes) { return fallocate_through("fallocate", fd, mode, at, bytes); }
int fallocate64(int fd, int mode, off_t at, off_t bytes) {
  return fallocate_through("fallocate64", fd, mode, at, bytes);
}

// Counters and the log: how often, and in what order, CuPy asked for launches, copies and waits.
#include <cstring>
#include <mutex>
#include <string>
#include <vector>
#include "host.h"

static std::mutex mutex;
static std::vector<std::string> lines;

extern "C" {
long hostcuda_counts[COUNTED];
int hostcuda_execute = 1;
int hostcuda_listing = 0;
int hostcuda_logging = 0;

void hostcuda_count(int counted, const char* what) {
  hostcuda_settle();
  std::lock_guard<std::mutex> lock(mutex);
  hostcuda_counts[counted]++;
  if (hostcuda_logging) lines.push_back(what);
}
long hostcuda_log_size() { return (long)lines.size(); }
const char* hostcuda_log_line(long k) { return lines[k].c_str(); }
void hostcuda_clear() {
  std::lock_guard<std::mutex> lock(mutex);
  lines.clear();
  memset(hostcuda_counts, 0, sizeof hostcuda_counts);
}
}

// Self-test: feeds the golden inputs to the model and compares its outputs with the golden outputs.
// Prints one line per vector and PASS or FAIL at the end. Made by sqp-export.
#include <math.h>
#include <string.h>

#include "{{ prefix }}_arena.h"
#include "{{ prefix }}_golden.h"
#include "{{ prefix }}_runner.h"
#include "tensorflow/lite/micro/micro_log.h"

namespace {

// Returns how many values differ from the golden ones by more than the tolerance.
template <typename T, typename Tolerance>
int CountWrong(const T* got, const T* golden, int count, Tolerance tolerance) {
  int wrong = 0;
  for (int i = 0; i < count; ++i) {
    const double apart = fabs(static_cast<double>(got[i]) - static_cast<double>(golden[i]));
    if (!(apart <= static_cast<double>(tolerance))) ++wrong;  // Also counts a NaN.
  }
  return wrong;
}

int SelfTest() {
  const int refused = {{ prefix }}_prepare();
  if (refused != 0) {
    MicroPrintf("FAIL: prepare returned %d (1 schema, 2 operators, 3 arena of %d bytes too small)", refused,
                static_cast<int>({{ macro }}_ARENA_BYTES));
    return 1;
  }
  MicroPrintf("arena: %d of %d bytes used", static_cast<int>({{ prefix }}_arena_used()),
              static_cast<int>({{ macro }}_ARENA_BYTES));
  int failed = 0;
  for (int vector = 0; vector < {{ macro }}_GOLDEN_COUNT; ++vector) {
{% for port in inputs %}
    memcpy({{ prefix }}_input_{{ port.name }}(), {{ prefix }}_golden_input_{{ port.name }}[vector], {{ macro }}_{{ port.macro }}_BYTES);
{% endfor %}
    int wrong = {{ prefix }}_run() == 0 ? 0 : 1;
{% for port in outputs %}
    wrong += CountWrong({{ prefix }}_output_{{ port.name }}(), {{ prefix }}_golden_output_{{ port.name }}[vector],
                        {{ macro }}_{{ port.macro }}_ELEMENTS, {{ macro }}_GOLDEN_{{ port.macro }}_TOLERANCE);
{% endfor %}
    MicroPrintf("vector %d: %s (%d wrong)", vector, wrong == 0 ? "ok" : "differs", wrong);
    failed += wrong == 0 ? 0 : 1;
  }
  MicroPrintf(failed == 0 ? "PASS" : "FAIL");
  return failed;
}

}  // namespace

int main() { return SelfTest(); }

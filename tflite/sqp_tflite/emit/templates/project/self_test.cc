// The self-test of `{{ source }}`: feeds the golden inputs to the model and compares its outputs with the golden outputs.
// Prints one line per vector and PASS or FAIL at the end. Made by sqp-export. Do not edit.
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

// Returns how many vectors differ; the model is prepared.
int CountFailed(bool print) {
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
    if (print) MicroPrintf("vector %d: %s (%d wrong)", vector, wrong == 0 ? "ok" : "differs", wrong);
    failed += wrong == 0 ? 0 : 1;
  }
{% if m.stepped %}
  // The same steps in a row, with the states that the runner keeps. What optimised kernels round otherwise adds up.
  {{ prefix }}_reset();
  for (int step = 0; step < {{ macro }}_GOLDEN_COUNT; ++step) {
{% for port in m.given %}
    static {{ port.c_type }} {{ port.name }}[{{ macro }}_{{ port.macro }}_ELEMENTS];
{% endfor %}
    int wrong = {{ prefix }}_step({% for port in m.fed %}{{ prefix }}_golden_input_{{ port.name }}[step], {% endfor %}{% for port in m.given %}{{ port.name }}{{ ", " if not loop.last }}{% endfor %});
{% for port in m.given %}
    wrong += CountWrong({{ port.name }}, {{ prefix }}_golden_output_{{ port.name }}[step], {{ macro }}_{{ port.macro }}_ELEMENTS,
                        4 * {{ macro }}_GOLDEN_{{ port.macro }}_TOLERANCE);
{% endfor %}
    if (print) MicroPrintf("step %d: %s (%d wrong)", step, wrong == 0 ? "ok" : "differs", wrong);
    failed += wrong == 0 ? 0 : 1;
  }
{% endif %}
  return failed;
}

}  // namespace

int {{ prefix }}_self_test(void) {
  const int refused = {{ prefix }}_prepare();
  if (refused != {{ macro }}_OK) {
    MicroPrintf("FAIL: prepare returned %d (1 schema or alignment, 2 operators, 3 arena of %d bytes too small)", refused,
                static_cast<int>({{ macro }}_ARENA_BYTES));
    return 1;
  }
  MicroPrintf("arena: %d bytes", static_cast<int>({{ macro }}_ARENA_BYTES));
  const int failed = CountFailed(true);
  MicroPrintf(failed == 0 ? "PASS" : "FAIL");
  return failed;
}

#ifdef {{ macro }}_FIND_ARENA
// Finds the smallest arena on this target: each size that is printed has allocated the model and passed the self-test. The
// last one suffices. TFLM may fault at a size that is too small instead of returning an error: that ends the search, too.
void {{ prefix }}_find_arena(void) {
  alignas(16) static uint8_t memory[{{ macro }}_ARENA_BYTES];
  for (size_t bytes = sizeof memory; bytes > 0; bytes -= bytes > 16 ? 16 : bytes) {
    if ({{ prefix }}_prepare_in(memory, bytes) != {{ macro }}_OK || CountFailed(false) != 0) break;
    MicroPrintf("arena of %d bytes: ok", static_cast<int>(bytes));
  }
  {{ prefix }}_release();
}
#endif

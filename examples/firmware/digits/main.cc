// Self-test: feeds the golden inputs to the model and compares its outputs with the golden outputs.
// Prints one line per vector and PASS or FAIL at the end. Made by sqp-export.
#include <math.h>
#include <string.h>

#include "digits_arena.h"
#include "digits_golden.h"
#include "digits_runner.h"
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
  const int refused = digits_prepare();
  if (refused != 0) {
    MicroPrintf("FAIL: prepare returned %d (1 schema, 2 operators, 3 arena of %d bytes too small)", refused,
                static_cast<int>(DIGITS_ARENA_BYTES));
    return 1;
  }
  MicroPrintf("arena: %d of %d bytes used", static_cast<int>(digits_arena_used()),
              static_cast<int>(DIGITS_ARENA_BYTES));
  int failed = 0;
  for (int vector = 0; vector < DIGITS_GOLDEN_COUNT; ++vector) {
    memcpy(digits_input_image(), digits_golden_input_image[vector], DIGITS_INPUT_IMAGE_BYTES);
    int wrong = digits_run() == 0 ? 0 : 1;
    wrong += CountWrong(digits_output_digit(), digits_golden_output_digit[vector],
                        DIGITS_OUTPUT_DIGIT_ELEMENTS, DIGITS_GOLDEN_OUTPUT_DIGIT_TOLERANCE);
    MicroPrintf("vector %d: %s (%d wrong)", vector, wrong == 0 ? "ok" : "differs", wrong);
    failed += wrong == 0 ? 0 : 1;
  }
  MicroPrintf(failed == 0 ? "PASS" : "FAIL");
  return failed;
}

}  // namespace

int main() { return SelfTest(); }

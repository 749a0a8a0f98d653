// The self-test of `digits.keras`: feeds the golden inputs to the model and compares its outputs with the golden outputs.
// Prints one line per vector and PASS or FAIL at the end. Made by sqp-export. Do not edit.
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

// Returns how many vectors differ; the model is prepared.
int CountFailed(bool print) {
  int failed = 0;
  for (int vector = 0; vector < DIGITS_GOLDEN_COUNT; ++vector) {
    memcpy(digits_input_image(), digits_golden_input_image[vector], DIGITS_INPUT_IMAGE_BYTES);
    int wrong = digits_run() == 0 ? 0 : 1;
    wrong += CountWrong(digits_output_digit(), digits_golden_output_digit[vector],
                        DIGITS_OUTPUT_DIGIT_ELEMENTS, DIGITS_GOLDEN_OUTPUT_DIGIT_TOLERANCE);
    if (print) MicroPrintf("vector %d: %s (%d wrong)", vector, wrong == 0 ? "ok" : "differs", wrong);
    failed += wrong == 0 ? 0 : 1;
  }
  return failed;
}

}  // namespace

int digits_self_test(void) {
  const int refused = digits_prepare();
  if (refused != DIGITS_OK) {
    MicroPrintf("FAIL: prepare returned %d (1 schema or alignment, 2 operators, 3 arena of %d bytes too small)", refused,
                static_cast<int>(DIGITS_ARENA_BYTES));
    return 1;
  }
  MicroPrintf("arena: %d bytes", static_cast<int>(DIGITS_ARENA_BYTES));
  const int failed = CountFailed(true);
  MicroPrintf(failed == 0 ? "PASS" : "FAIL");
  return failed;
}

#ifdef DIGITS_FIND_ARENA
// Finds the smallest arena on this target: each size that is printed has allocated the model and passed the self-test. The
// last one suffices. TFLM may fault at a size that is too small instead of returning an error: that ends the search, too.
void digits_find_arena(void) {
  alignas(16) static uint8_t memory[DIGITS_ARENA_BYTES];
  for (size_t bytes = sizeof memory; bytes > 0; bytes -= bytes > 16 ? 16 : bytes) {
    if (digits_prepare_in(memory, bytes) != DIGITS_OK || CountFailed(false) != 0) break;
    MicroPrintf("arena of %d bytes: ok", static_cast<int>(bytes));
  }
  digits_release();
}
#endif

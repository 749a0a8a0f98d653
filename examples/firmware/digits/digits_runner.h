/* How to run `digits.keras`: prepare once, then fill the input, run, read the output. C99 and C++11.
   Made by sqp-export. Do not edit. */
#ifndef DIGITS_RUNNER_H_
#define DIGITS_RUNNER_H_

#include <math.h>
#include <stddef.h>

#include "digits_data.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Returns 0 when the model is ready; call it once. */
int digits_prepare(void);

/* Runs the model on its inputs. Returns 0 when the outputs are valid. */
int digits_run(void);

/* Bytes of the arena that are in use; valid after digits_prepare. */
size_t digits_arena_used(void);

/* Where to put `image`: 64 values of int8. Fill it before each run: TFLM may reuse the memory. */
int8_t* digits_input_image(void);
/* Where to find `digit`: 10 values of int8. */
const int8_t* digits_output_digit(void);

#ifdef __cplusplus
}
#endif

/* From real numbers to codes: the nearest code, clipped to the type's range. */
static inline int8_t digits_quantize_image(float real) {
  const float least = -128.0f;
  const float most = 127.0f;
  const float code = floorf(real / DIGITS_INPUT_IMAGE_SCALE + 0.5f) + DIGITS_INPUT_IMAGE_ZERO_POINT;
  return (int8_t)(code < least ? least : (code > most ? most : code));
}

/* From codes back to real numbers. */
static inline float digits_real_digit(int8_t code) {
  return DIGITS_OUTPUT_DIGIT_SCALE * (float)((int)code - DIGITS_OUTPUT_DIGIT_ZERO_POINT);
}

#endif /* DIGITS_RUNNER_H_ */

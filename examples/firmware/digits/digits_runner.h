/* How to run `digits.keras`: prepare once, then fill the input, run, read the output. C99 and C++11.
   Made by sqp-export. Do not edit. */
#ifndef DIGITS_RUNNER_H_
#define DIGITS_RUNNER_H_

#include <stddef.h>
#include <stdint.h>

#include "digits_data.h"

#ifdef __cplusplus
extern "C" {
#endif

/* What the functions return. */
enum {
  DIGITS_OK = 0,
  DIGITS_WRONG_SCHEMA = 1,    /* the array is no model, or not aligned to 16 bytes */
  DIGITS_NO_OPERATOR = 2,     /* an operator was not registered */
  DIGITS_SMALL_ARENA = 3,     /* the arena is too small, or not aligned to 16 bytes */
  DIGITS_NOT_PREPARED = 4,    /* prepare first */
  DIGITS_FAILED = 5           /* an operator reported an error */
};

/* Makes the model ready, in the runner's own arena of DIGITS_ARENA_BYTES. A second call starts anew. */
int digits_prepare(void);

/* The same in memory of the caller's, aligned to 16 bytes. Models that do not run at the same time may share it: release
   one before you prepare the other. */
int digits_prepare_in(void* arena, size_t bytes);

/* Forgets the model; its arena may be used for something else. Prepare again before the next run. */
void digits_release(void);

/* Runs the model on its inputs; the outputs are valid if it returns DIGITS_OK. */
int digits_run(void);

/* Bytes of the arena in which tensors lie between runs; 0 before prepare. Allocation needs more than that for a moment:
   no size for the arena follows from this number. */
size_t digits_arena_used(void);

/* Runs the golden inputs through the model, prints one line for each and PASS or FAIL. Returns 0 for PASS. */
int digits_self_test(void);

#ifdef DIGITS_FIND_ARENA
/* Prints each size of the arena, downwards, with which the golden outputs are right; the last one suffices. */
void digits_find_arena(void);
#endif

/* Where to put `image`: 64 values of int8. Fill it before each run: TFLM may reuse the memory. NULL before prepare. */
int8_t* digits_input_image(void);
/* Where to find `digit`: 10 values of int8. NULL before prepare. */
const int8_t* digits_output_digit(void);

#ifdef __cplusplus
}
#endif

/* From real numbers to codes, as TFLM's QUANTIZE does it: the nearest code, halves away from 0, clipped to the type's
   range. NaN becomes the least code. No function of libm is called. */
static inline int8_t digits_quantize_image(float real) {
  const int32_t least = -128;
  const int32_t most = 127;
  const float steps = real / DIGITS_INPUT_IMAGE_SCALE;
  int32_t code;
  float rest;
  if (!(steps > (float)(least - DIGITS_INPUT_IMAGE_ZERO_POINT))) return (int8_t)least;
  if (steps >= (float)(most - DIGITS_INPUT_IMAGE_ZERO_POINT)) return (int8_t)most;
  code = (int32_t)steps;
  rest = steps - (float)code;
  if (rest >= 0.5f) ++code;
  if (rest <= -0.5f) --code;
  return (int8_t)(code + DIGITS_INPUT_IMAGE_ZERO_POINT);
}

/* From codes back to real numbers. */
static inline float digits_real_digit(int8_t code) {
  return DIGITS_OUTPUT_DIGIT_SCALE * (float)((int)code - DIGITS_OUTPUT_DIGIT_ZERO_POINT);
}

#endif /* DIGITS_RUNNER_H_ */

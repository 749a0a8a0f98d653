/* The model `digits.tflite` as C. Made by sqp-export.

C99 and C++11; needs stdint.h and stddef.h only: no malloc, no libm, no state. Results are those of TensorFlow Lite
Micro's reference kernels, to the last bit, where the compiler computes floats as written: no -ffast-math, and
-ffp-contract=off where it may fuse a multiplication and an addition.
*/
#ifndef DIGITS_H_
#define DIGITS_H_

#include <stddef.h>
#include <stdint.h>

#define DIGITS_ABI 1
#define DIGITS_FILE_SHA256 "af16784da23392b0946cba9511e76928be52537bccc56747203e2c4a87d67389"
/* Bytes of memory that a run needs, aligned to 8; 520 live at the same time. */
#define DIGITS_ARENA_BYTES 520
#define DIGITS_ARENA_ALIGN 8
#define DIGITS_SELFTEST_BYTES 536
#define DIGITS_INPUT_COUNT 1
#define DIGITS_OUTPUT_COUNT 1

/* Input 0, `image`: real = SCALE * (code - ZERO_POINT). */
#define DIGITS_INPUT_IMAGE_NAME "image"
#define DIGITS_INPUT_IMAGE_INDEX 0
#define DIGITS_INPUT_IMAGE_TYPE int8_t
#define DIGITS_INPUT_IMAGE_DTYPE "int8"
#define DIGITS_INPUT_IMAGE_RANK 4
#define DIGITS_INPUT_IMAGE_SHAPE {1, 8, 8, 1}
#define DIGITS_INPUT_IMAGE_ELEMENTS 64
#define DIGITS_INPUT_IMAGE_BYTES 64
#define DIGITS_INPUT_IMAGE_QUANTIZED 1
#define DIGITS_INPUT_IMAGE_SCALE 0.00392156886f
#define DIGITS_INPUT_IMAGE_ZERO_POINT -128

/* Output 0, `digit`: real = SCALE * (code - ZERO_POINT). */
#define DIGITS_OUTPUT_DIGIT_NAME "digit"
#define DIGITS_OUTPUT_DIGIT_INDEX 0
#define DIGITS_OUTPUT_DIGIT_TYPE int8_t
#define DIGITS_OUTPUT_DIGIT_DTYPE "int8"
#define DIGITS_OUTPUT_DIGIT_RANK 2
#define DIGITS_OUTPUT_DIGIT_SHAPE {1, 10}
#define DIGITS_OUTPUT_DIGIT_ELEMENTS 10
#define DIGITS_OUTPUT_DIGIT_BYTES 10
#define DIGITS_OUTPUT_DIGIT_QUANTIZED 1
#define DIGITS_OUTPUT_DIGIT_SCALE 0.387539864f
#define DIGITS_OUTPUT_DIGIT_ZERO_POINT 31

#ifdef __cplusplus
extern "C" {
#endif

/* Memory of a run: DIGITS_ARENA_BYTES, aligned. Runs one after another may share it. */
typedef union { int64_t align; unsigned char bytes[520]; } digits_arena;

/* Computes the outputs from the inputs. None of the memory may overlap. Keeps nothing: it may run in several
   threads, each with an arena. */
void digits_run(void *arena, const int8_t *input_image, int8_t *output_digit);

/* Runs golden vectors, which are in a source of their own; returns how many outputs differ. */
int32_t digits_selftest(void *memory);

/* The nearest code, half away from zero, within the type's range; the smallest one for NaN. */
static inline int8_t digits_quantize_input_image(float value)
{
    const float steps = value / DIGITS_INPUT_IMAGE_SCALE;
    const float low = (float)(-128 - DIGITS_INPUT_IMAGE_ZERO_POINT), high = (float)(127 - DIGITS_INPUT_IMAGE_ZERO_POINT);
    int32_t whole;
    if (!(steps > low)) return -128;
    if (steps >= high) return 127;
    whole = (int32_t)steps;
    whole += (steps - (float)whole >= 0.5f ? 1 : 0) - (steps - (float)whole <= -0.5f ? 1 : 0);
    return (int8_t)(whole + DIGITS_INPUT_IMAGE_ZERO_POINT);
}

static inline float digits_dequantize_input_image(int8_t code)
{
    return DIGITS_INPUT_IMAGE_SCALE * (float)((int32_t)code - DIGITS_INPUT_IMAGE_ZERO_POINT);
}

/* The nearest code, half away from zero, within the type's range; the smallest one for NaN. */
static inline int8_t digits_quantize_output_digit(float value)
{
    const float steps = value / DIGITS_OUTPUT_DIGIT_SCALE;
    const float low = (float)(-128 - DIGITS_OUTPUT_DIGIT_ZERO_POINT), high = (float)(127 - DIGITS_OUTPUT_DIGIT_ZERO_POINT);
    int32_t whole;
    if (!(steps > low)) return -128;
    if (steps >= high) return 127;
    whole = (int32_t)steps;
    whole += (steps - (float)whole >= 0.5f ? 1 : 0) - (steps - (float)whole <= -0.5f ? 1 : 0);
    return (int8_t)(whole + DIGITS_OUTPUT_DIGIT_ZERO_POINT);
}

static inline float digits_dequantize_output_digit(int8_t code)
{
    return DIGITS_OUTPUT_DIGIT_SCALE * (float)((int32_t)code - DIGITS_OUTPUT_DIGIT_ZERO_POINT);
}

#ifdef __cplusplus
}
#endif

#endif /* DIGITS_H_ */

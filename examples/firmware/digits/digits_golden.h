/* 8 inputs of the model and what TensorFlow Lite Micro (0.dev20261023182759) answers. */
#ifndef DIGITS_GOLDEN_H_
#define DIGITS_GOLDEN_H_

#include "digits_data.h"

#define DIGITS_GOLDEN_COUNT 8

/* How far an output of the device may be from the golden one, in the output's own unit (steps for codes). */
#define DIGITS_GOLDEN_OUTPUT_DIGIT_TOLERANCE 1

#ifdef __cplusplus
extern "C" {
#endif

extern const int8_t digits_golden_input_image[DIGITS_GOLDEN_COUNT][DIGITS_INPUT_IMAGE_ELEMENTS];
extern const int8_t digits_golden_output_digit[DIGITS_GOLDEN_COUNT][DIGITS_OUTPUT_DIGIT_ELEMENTS];

#ifdef __cplusplus
}
#endif

#endif /* DIGITS_GOLDEN_H_ */

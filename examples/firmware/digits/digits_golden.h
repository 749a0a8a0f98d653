/* 8 inputs of the model and their outputs from TensorFlow Lite Micro (0.dev20261023182759). Made by sqp-export. */
#ifndef DIGITS_GOLDEN_H_
#define DIGITS_GOLDEN_H_

#include "digits_data.h"

#define DIGITS_GOLDEN_COUNT 8

/* Max difference between the device's output and the golden one, in the output's unit (steps for codes). */
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

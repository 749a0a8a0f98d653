/* `digits.keras` as TFLite, 7424 bytes. Made by sqp-export. */
#ifndef DIGITS_DATA_H_
#define DIGITS_DATA_H_

#include <stdint.h>

#define DIGITS_SIZE 7424
#define DIGITS_SHA256 "af16784da23392b0946cba9511e76928be52537bccc56747203e2c4a87d67389"
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

extern const unsigned char digits_data[DIGITS_SIZE];
extern const unsigned int digits_data_size;

#ifdef __cplusplus
}
#endif

#endif /* DIGITS_DATA_H_ */

/* Reads a handwritten digit with the network in digits/, which sqp-cc has written.

   gcc -std=c99 -O2 examples/code/main.c examples/code/digits/digits.c -o digit && ./digit */
#include <stdio.h>

#include "digits/digits.h"

/* Eight by eight pixels, 0 is white and 16 black. */
static const unsigned char image[DIGITS_INPUT_IMAGE_ELEMENTS] = {
     0,  1,  8, 12, 15, 14,  4,  0,
     0,  3, 11,  8,  8, 12, 12,  0,
     0,  0,  0,  0,  2, 13,  7,  0,
     0,  0,  0,  2, 15, 12,  1,  0,
     0,  0,  0,  0, 13,  5,  0,  0,
     0,  0,  0,  0,  9, 13,  0,  0,
     0,  0,  7,  8, 14, 15,  0,  0,
     0,  0, 14, 15, 11,  2,  0,  0,
};

static digits_arena arena;

int main(void)
{
    int8_t codes[DIGITS_INPUT_IMAGE_ELEMENTS], scores[DIGITS_OUTPUT_DIGIT_ELEMENTS];
    int i, best = 0;
    for (i = 0; i < DIGITS_INPUT_IMAGE_ELEMENTS; i++) {
        codes[i] = digits_quantize_input_image((float)image[i] / 16.0f);
        putchar(" .:-=+*#@"[image[i] / 2]);
        if (i % 8 == 7) putchar('\n');
    }
    digits_run(&arena, codes, scores);
    for (i = 1; i < DIGITS_OUTPUT_DIGIT_ELEMENTS; i++) {
        if (scores[i] > scores[best]) best = i;
    }
    printf("This is a %d.\n", best);
    return 0;
}

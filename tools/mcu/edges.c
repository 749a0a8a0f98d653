/* Prints the number of each promise of sqp.h that does not hold at the ends of its ranges, and "end".
 * SPDX-License-Identifier: Apache-2.0
 */
#include <stdio.h>

#include "sqp.h"

#define PROMISE(number, holds)                  \
    if (!(holds)) { printf("%d ", (number)); }

int main(void) {
    static const float refused[][3] = {{4, 0, 1}, {4, 1, 0}, {-1, 1, 1}, {4, 1e-9f, 1}, {4, 1, 1e-6f}, {4, 1e6f, 1}};
    static const float b[2] = {4.0f, 0.25f};
    static const float x[6] = {-1.0f, -1.0f, 0.0f, 0.0f, 2.0f, 2.0f};
    static const int8_t q8[6] = {-128, -128, 0, 0, 127, 127};
    static const int16_t q16[6] = {-32767, -32767, 0, 0, 32767, 32767};
    static const int32_t ends[2] = {INT32_MIN, INT32_MAX};
    const float zero = 0.0f, huge = 3e38f;
    static int8_t tables[2][256], out8[6];
    static sqp_i16_params p[2];
    static sqp_i8_params direct;
    float y[6];
    int16_t out16[6];
    int i, c;

    for (i = 0; i < 6; ++i) { PROMISE(1, sqp_i16_setup(p, refused[i][0], refused[i][1], refused[i][2]) == -1) }
    PROMISE(2, sqp_i8_setup(&direct, 4.0f, 0.05f, -129, 0.05f, 0) == -1)
    PROMISE(3, sqp_i8_setup(&direct, 4.0f, 0.05f, 0, 0.05f, 128) == -1)
    PROMISE(4, sqp_f32_stable(-1e-45f, 0.0f) == 0.0f && sqp_f32_stable(-0.0f, 0.0f) == 0.0f)
    PROMISE(5, sqp_i8_quantize(zero / zero, 1.0f, 5) == -128 && sqp_i16_quantize(zero / zero, 1.0f, 5) == -32768)
    PROMISE(6, sqp_i8_quantize(huge * huge, 1.0f, 5) == 127 && sqp_i16_quantize(-huge * huge, 1.0f, 5) == -32768)
    for (i = 0; i < 2; ++i) { /* no overflow, whatever the zero points: ends of the type */
        PROMISE(7, sqp_i8_quantize(0.0f, 1.0f, ends[i]) == (i ? 127 : -128))
        PROMISE(8, sqp_i16_quantize(2147483647.0f, 1.0f, ends[i]) == 32767)
        PROMISE(9, sqp_dequantize(0, 1.0f, ends[i]) == (i ? -2147483648.0f : 2147483648.0f))
        for (c = 0; c < 2; ++c) {
            sqp_i8_fill(tables[0], 4.0f, 0.05f, ends[c], 0.05f, ends[i]);
            PROMISE(10, tables[0][0] == (i || !c ? 127 : -128))
        }
    }

    for (c = 0; c < 2; ++c) { /* channels: each with its own b */
        sqp_i8_fill(tables[c], b[c], 0.05f, 3, 0.03f, -128);
        PROMISE(11, sqp_i16_setup(&p[c], b[c], 0.001f, 0.001f) == 0)
    }
    sqp_f32_channels(x, y, 3, b, 2);
    sqp_i8_channels(q8, out8, 3, tables[0], 2);
    sqp_i16_channels(q16, out16, 3, p, 2);
    for (i = 0; i < 6; ++i) {
        PROMISE(12, y[i] == sqp_f32(x[i], b[i % 2]))
        PROMISE(13, out8[i] == tables[i % 2][q8[i] + 128])
        PROMISE(14, out16[i] == sqp_i16(q16[i], &p[i % 2]))
    }
    PROMISE(15, y[2] == 1.0f && y[3] == 0.25f && out16[2] == 1000 && out16[3] == 250)
    PROMISE(16, SQP_VERSION >= 101)
    printf("end\n");
    return 0;
}

/* Reads jobs from in.bin, runs every kernel of sqp.h on them and writes what came out, bit by bit, to out.bin.
 *
 * The same file is compiled for the host (C99 and C++11) and for the emulated cores. Numbers are little-endian words.
 * in.bin:  count of float jobs, then for each b, n, x[n]; count of int8 jobs, then for each b, in_scale, in_zero,
 *          out_scale, out_zero; count of int16 jobs, then for each b, in_scale, out_scale.
 * out.bin: float: plain, halved, stable, square root, integer square root, codes of int8 and int16, and these made real,
 *          in blocks of up to 128 of each; int8: table[256], the kernel applied to all codes, the same without a table;
 *          int16: return code, then all 65536 codes.
 * SPDX-License-Identifier: Apache-2.0
 */
#include <stdio.h>

#include "sqp.h"

#define BLOCK 128

static FILE *in_file, *out_file;

static int take(void *to, size_t size) { return fread(to, 1, size, in_file) == size; }

static int give(const void *from, size_t size) { return fwrite(from, 1, size, out_file) == size; }

static int float_job(void) {
    static float x[BLOCK], y[5][BLOCK];
    static int8_t q8[BLOCK];
    static int16_t q16[BLOCK];
    float b;
    uint32_t n, i;
    if (!take(&b, 4) || !take(&n, 4)) { return 0; }
    while (n > 0) {
        uint32_t part = n < BLOCK ? n : BLOCK;
        if (!take(x, 4 * part)) { return 0; }
        sqp_f32_n(x, y[0], part, b);
        for (i = 0; i < part; ++i) { y[1][i] = 0.5f * x[i]; }
        sqp_f32_halved_n(y[1], y[1], part, 0.25f * b); /* in place */
        sqp_f32_stable_n(x, y[2], part, b);
        for (i = 0; i < part; ++i) {
            y[3][i] = sqp_sqrtf(x[i]);
            y[4][i] = sqp_sqrtf_integer(x[i]);
        }
        for (i = 0; i < 5; ++i) {
            if (!give(y[i], 4 * part)) { return 0; }
        }
        for (i = 0; i < part; ++i) {
            q8[i] = sqp_i8_quantize(x[i], 0.25f, 3);
            q16[i] = sqp_i16_quantize(x[i], 0.001f, -20000);
            y[0][i] = sqp_dequantize(q16[i], 0.001f, -20000);
        }
        if (!give(q8, part) || !give(q16, 2 * part) || !give(y[0], 4 * part)) { return 0; }
        n -= part;
    }
    return 1;
}

static int int8_job(void) {
    static int8_t table[256], codes[256], applied[256];
    static sqp_i8_params p;
    float b, in_scale, out_scale;
    int32_t in_zero, out_zero, q;
    if (!take(&b, 4) || !take(&in_scale, 4) || !take(&in_zero, 4) || !take(&out_scale, 4) || !take(&out_zero, 4)) {
        return 0;
    }
    sqp_i8_fill(table, b, in_scale, in_zero, out_scale, out_zero);
    for (q = -128; q < 128; ++q) { codes[q + 128] = (int8_t)q; }
    if (!give(table, 256)) { return 0; }
    if (sqp_i8_setup(&p, b, in_scale, in_zero, out_scale, out_zero) != 0) { return 0; }
    sqp_i8_n(codes, applied, 256, table);
    sqp_i8_direct_n(codes, codes, 256, &p); /* in place */
    return give(applied, 256) && give(codes, 256);
}

static int int16_job(void) {
    static int16_t codes[BLOCK];
    static sqp_i16_params p;
    float b, in_scale, out_scale;
    int32_t code, q, i;
    if (!take(&b, 4) || !take(&in_scale, 4) || !take(&out_scale, 4)) { return 0; }
    code = sqp_i16_setup(&p, b, in_scale, out_scale);
    if (!give(&code, 4)) { return 0; }
    if (code != 0) { return 1; }
    for (q = -32768; q < 32768; q += BLOCK) {
        for (i = 0; i < BLOCK; ++i) { codes[i] = (int16_t)(q + i); }
        sqp_i16_n(codes, codes, BLOCK, &p);
        if (!give(codes, sizeof codes)) { return 0; }
    }
    return 1;
}

static int jobs(int (*job)(void)) {
    uint32_t count;
    if (!take(&count, 4)) { return 0; }
    for (; count > 0; --count) {
        if (!job()) { return 0; }
    }
    return 1;
}

int main(void) {
    int done;
    in_file = fopen("in.bin", "rb");
    out_file = fopen("out.bin", "wb");
    if (!in_file || !out_file) { return 2; }
    done = jobs(float_job) && jobs(int8_job) && jobs(int16_job);
    done = fclose(out_file) == 0 && done;
    fclose(in_file);
    return done ? 0 : 1;
}

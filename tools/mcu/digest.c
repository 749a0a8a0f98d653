/* Prints one line for each group of kernels of sqp.h: its name and a hash of what it gives, the same on every machine.
 *
 * For targets without files: the host's lines, whose kernels are checked bit by bit, are what a target must print.
 * On AVR the lines go to the first serial port, which simavr prints.
 * SPDX-License-Identifier: Apache-2.0
 */
#include <stdio.h>

#include "sqp.h"

#if defined(__AVR__)
#include <avr/interrupt.h>
#include <avr/io.h>
#include <avr/sleep.h>

static void put(char c) {
    while (!(UCSR0A & (1 << UDRE0))) { }
    UDR0 = (uint8_t)c;
}

static int end(void) { /* asleep without interrupts: simavr ends */
    cli();
    sleep_enable();
    sleep_cpu();
    return 0;
}
#else
static void put(char c) { putchar(c); }
static int end(void) { return 0; }
#endif

static uint32_t hash;

static void mix(uint32_t word, int bytes) { /* FNV-1a, least byte first on any machine */
    for (; bytes > 0; --bytes) {
        hash = (hash ^ (word & 255u)) * UINT32_C(16777619);
        word >>= 8;
    }
}

static void mix_float(float value) {
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    mix(value == value ? bits : UINT32_C(0x7FC00000), 4); /* any NaN is as good as another */
}

static void line(const char *name) {
    int digit;
    while (*name) { put(*name++); }
    put(' ');
    for (digit = 28; digit >= 0; digit -= 4) { put("0123456789abcdef"[(hash >> digit) & 15u]); }
    put('\n');
    hash = UINT32_C(2166136261);
}

static float next(uint32_t *state, uint32_t exponents) { /* either sign; exponents from 127 - exponents on */
    uint32_t bits;
    float value;
    *state = *state * UINT32_C(1664525) + UINT32_C(1013904223);
    bits = (*state & UINT32_C(0x80000000)) | ((127 - exponents + (*state >> 8) % (2 * exponents)) << 23);
    *state = *state * UINT32_C(1664525) + UINT32_C(1013904223);
    bits |= *state >> 9;
    memcpy(&value, &bits, sizeof value);
    return value;
}

int main(void) {
    static const float scales[7][3] = {/* b, in_scale, out_scale: large and small b, fine and coarse steps */
        {4.0f, 0.000244140625f, 0.00025f}, {1.5238f, 0.0006f, 0.0006f}, {0.0f, 0.01f, 0.01f}, {4.0f, 0.03f, 0.03f},
        {4.0f, 3e-6f, 3.3e-5f}, {4.0f, 3.1f, 0.19375f}, {1e-9f, 1.0f, 0.0625f}};
    static int8_t table[256];
    static sqp_i16_params p;
    static sqp_i8_params direct;
    uint32_t state = 1;
    int32_t q;
    int i;
#if defined(__AVR__)
    UCSR0B = 1 << TXEN0;
#endif
    hash = UINT32_C(2166136261);
    for (i = 0; i < 7; ++i) {
        mix((uint32_t)sqp_i16_setup(&p, scales[i][0], scales[i][1], scales[i][2]), 1);
        for (q = -32768; q < 32768; q += 41) { mix((uint32_t)sqp_i16((int16_t)q, &p), 2); }
    }
    line("int16");
    for (i = 0; i < 7; ++i) {
        float steps = scales[i][1] * 128.0f;
        mix((uint32_t)sqp_i8_setup(&direct, scales[i][0], steps, i - 3, steps * 0.7f, -100), 1);
        sqp_i8_fill(table, scales[i][0], steps, i - 3, steps * 0.7f, -100);
        for (q = -128; q < 128; ++q) {
            mix((uint32_t)sqp_i8_direct((int8_t)q, &direct), 1);
            mix((uint32_t)table[q + 128], 1);
        }
    }
    line("int8");
    for (i = 0; i < 1500; ++i) {
        float x = next(&state, 120);
        mix_float(sqp_sqrtf_integer(x));
        mix((uint32_t)sqp_root28_divide(UINT32_C(0x40000000) | state), 4);
        mix((uint32_t)sqp_root28_bitwise(UINT32_C(0x40000000) | state), 4);
    }
    line("roots");
    for (i = 0; i < 1500; ++i) {
        float x = next(&state, 6);
        mix((uint32_t)sqp_i8_quantize(x, 0.25f, 3), 1);
        q = sqp_i16_quantize(x, 0.001f, -20000);
        mix((uint32_t)q, 2);
        mix_float(sqp_dequantize(q, 0.001f, -20000));
    }
    line("codes");
    for (i = 0; i < 1500; ++i) {
        float x = next(&state, 12);
        mix_float(sqp_f32(x, 4.0f));
        mix_float(sqp_f32_halved(x, 1.0f));
        mix_float(sqp_f32_stable(x, 1.5238f));
    }
    line("float");
    return end();
}

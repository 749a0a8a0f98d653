/* Runs one kernel on 256 elements, 64 times, and prints the ticks of the SysTick timer in hexadecimal.
 *
 * Under `qemu -icount shift=0` an instruction takes one nanosecond, so ticks are instructions. Nothing here links a
 * library routine that a kernel might link: the size of the linked file minus that with KERNEL_none is the kernel's.
 * SPDX-License-Identifier: Apache-2.0
 */
#include <semihost.h>

#include "kernels.h"

#define ELEMENTS 256
#define TURNS 64

#define SYST_CSR (*(volatile uint32_t *)0xE000E010u)
#define SYST_RVR (*(volatile uint32_t *)0xE000E014u)
#define SYST_CVR (*(volatile uint32_t *)0xE000E018u)

static union {
    float f32[ELEMENTS];
    int16_t i16[ELEMENTS];
    int8_t i8[ELEMENTS];
} input, output;

/* Through a volatile pointer the kernel is neither inlined nor specialised for these arguments. */
static void (*volatile run)(const void *, void *, size_t) = kernel;

int main(void) {
    static const char digits[] = "0123456789abcdef";
    char text[10];
    uint32_t start, ticks, i;
    for (i = 0; i < ELEMENTS; ++i) { /* both signs, in no order that a branch predictor would like */
        uint32_t scrambled = (i * 37u) & 255u;
#if defined(INPUT_i8)
        input.i8[i] = (int8_t)(scrambled - 128u);
#elif defined(INPUT_i16)
        input.i16[i] = (int16_t)((int32_t)(scrambled << 8) - 32768);
#else
        /* Sizes from 1/32 to 8, put together from bits: a conversion would link a routine on some cores. */
        static const float powers[8] = {0.03125f, 0.0625f, 0.125f, 0.25f, 0.5f, 1.0f, 2.0f, 4.0f};
        uint32_t bits;
        memcpy(&bits, &powers[scrambled & 7u], sizeof bits);
        bits |= (scrambled & 0xF8u) << 15 | (scrambled & 0x80u) << 24;
        memcpy(&input.f32[i], &bits, sizeof bits);
#endif
    }
#if defined(INPUT_i16)
    kernel_params.i16.b = 16777216u; /* b = 4, both ranges [-16, 16): b / in_scale^2; scales equal */
    kernel_params.i16.multiplier = 1 << 30;
    kernel_params.i16.shift = 43;
#elif defined(KERNEL_sqp_i8_direct)
    kernel_params.direct.steps.b = 1600u; /* b = 4, both scales 0.05 */
    kernel_params.direct.steps.multiplier = 1 << 30;
    kernel_params.direct.steps.shift = 43;
    kernel_params.direct.out_zero = -128;
#else
    (void)kernel_params;
#endif
#if defined(KERNEL_sqp_i8)
    for (i = 0; i < 256; ++i) { kernel_table[i] = (int8_t)(i >> 1); }
#else
    (void)kernel_table;
#endif

    SYST_RVR = 0xFFFFFFu;
    SYST_CVR = 0;
    SYST_CSR = 5; /* on, processor clock */
    start = SYST_CVR;
    for (i = 0; i < TURNS; ++i) { run(&input, &output, ELEMENTS); }
    ticks = (start - SYST_CVR) & 0xFFFFFFu;

    for (i = 0; i < 8; ++i) { text[i] = digits[(ticks >> (28 - 4 * i)) & 15u]; }
    text[8] = '\n';
    text[9] = 0;
    sys_semihost_write0(text);
    sys_semihost_exit(ADP_Stopped_ApplicationExit, 0);
    return 0;
}

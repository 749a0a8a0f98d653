/* The kernels that are counted: those of sqp.h, and what people use instead, through libm.
 *
 * Every kernel has the signature void (const void *x, void *y, size_t n), so that one program can run any of them.
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef KERNELS_H_
#define KERNELS_H_

#include <math.h>

#include "sqp.h"

#define FLOAT_KERNEL(name, expression)                    \
    static void name(const void *in, void *out, size_t n) { \
        const float *from = (const float *)in;            \
        float *to = (float *)out;                         \
        size_t i;                                         \
        for (i = 0; i < n; ++i) {                         \
            float x = from[i];                            \
            to[i] = (expression);                         \
        }                                                 \
    }

static int8_t kernel_table[256];
static union { sqp_i16_params i16; sqp_i8_params direct; } kernel_params;

#if defined(KERNEL_none)
static void kernel(const void *in, void *out, size_t n) { (void)in; (void)out; (void)n; __asm__ volatile(""); }
#elif defined(KERNEL_calibrate) /* two instructions per turn, to check the clock of the emulated board */
static void kernel(const void *in, void *out, size_t n) {
    (void)in; (void)out;
    __asm__ volatile(".syntax unified\n1: subs %0, %0, #1\n bne 1b\n" : "+l"(n) : : "cc");
}
#elif defined(KERNEL_relu)
FLOAT_KERNEL(kernel, x > 0.0f ? x : 0.0f)
#elif defined(KERNEL_sqp_f32)
FLOAT_KERNEL(kernel, sqp_f32(x, 4.0f))
#elif defined(KERNEL_sqp_f32_halved)
FLOAT_KERNEL(kernel, sqp_f32_halved(x, 1.0f))
#elif defined(KERNEL_sqp_f32_stable)
FLOAT_KERNEL(kernel, sqp_f32_stable(x, 4.0f))
#elif defined(KERNEL_elu)
FLOAT_KERNEL(kernel, x > 0.0f ? x : expf(x) - 1.0f)
#elif defined(KERNEL_sigmoid)
FLOAT_KERNEL(kernel, 1.0f / (1.0f + expf(-x)))
#elif defined(KERNEL_silu)
FLOAT_KERNEL(kernel, x / (1.0f + expf(-x)))
#elif defined(KERNEL_tanh)
FLOAT_KERNEL(kernel, tanhf(x))
#elif defined(KERNEL_softplus_naive)
FLOAT_KERNEL(kernel, logf(1.0f + expf(x)))
#elif defined(KERNEL_softplus)
FLOAT_KERNEL(kernel, (x > 0.0f ? x : 0.0f) + log1pf(expf(x > 0.0f ? -x : x)))
#elif defined(KERNEL_sqp_i8)
static void kernel(const void *in, void *out, size_t n) {
    sqp_i8_n((const int8_t *)in, (int8_t *)out, n, kernel_table);
}
#elif defined(KERNEL_sqp_i16)
static void kernel(const void *in, void *out, size_t n) {
    sqp_i16_n((const int16_t *)in, (int16_t *)out, n, &kernel_params.i16);
}
#elif defined(KERNEL_sqp_i8_direct)
static void kernel(const void *in, void *out, size_t n) {
    sqp_i8_direct_n((const int8_t *)in, (int8_t *)out, n, &kernel_params.direct);
}
#else
#error "Define one KERNEL_<name>."
#endif

#endif /* KERNELS_H_ */

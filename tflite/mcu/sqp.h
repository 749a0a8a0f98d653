/* Squareplus for microcontrollers: y = (x + sqrt(x*x + b)) / 2.
 *
 * SPDX-License-Identifier: Apache-2.0
 *
 * One header, C99 or C++11, no allocation, no table in RAM unless you ask for one, no state. Include it and call:
 *
 *   sqp_f32(x, b)                 the plain formula, which the export writes as MUL ADD SQRT ADD
 *   sqp_f32_halved(z, quarter_b)  the same with z = x/2, for a layer before it that already halves its output:
 *                                 one multiplication fewer
 *   sqp_f32_stable(x, b)          without cancellation: the left tail keeps all digits; costs one division
 *   sqp_i8_fill, sqp_i8_n         int8 through a table of 256 entries
 *   sqp_i8_setup, sqp_i8_direct   int8 in fixed point, without a table
 *   sqp_i16_setup, sqp_i16        int16 in fixed point, no floating point after the set-up
 *   sqp_i8_quantize, sqp_i16_quantize, sqp_dequantize     from real numbers to codes and back, as TFLM does it
 *
 * A name that ends in _n works on n elements. One that ends in _channels works on rows of `channels` elements, each
 * channel with its own b (an array of them, of tables, or of parameters). Input and output may be the same array.
 *
 * Square roots. With a floating-point unit the compiler's builtin becomes one instruction. GCC also links sqrtf, which
 * sets errno, unless you pass -fno-math-errno. Without a unit an integer routine of this header is used, which rounds
 * as IEEE 754 requires and links nothing: with hardware division if the core has it, bit by bit on cores such as
 * Cortex-M0 and where int has 16 bits (AVR, MSP430). Define SQP_SQRT before the include to choose another.
 *
 * Rounding. Compiled with -std=c99 or -ffp-contract=off the float kernels return the same bits on every core. GCC's
 * default (-std=gnu..) fuses x*x + b into one instruction if the core has it: one rounding fewer, so the last bit
 * may differ and be closer to the exact value.
 *
 * Domain. b >= 0. Float kernels: abs(x) < 1.8e19, so that x*x does not overflow; NaN gives NaN. Below, "step" is one
 * unit of the quantised output.
 */
#ifndef SQP_H_
#define SQP_H_

#include <limits.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define SQP_VERSION_MAJOR 1
#define SQP_VERSION_MINOR 1
#define SQP_VERSION (SQP_VERSION_MAJOR * 100 + SQP_VERSION_MINOR) /* this header's, to compare in #if; 1.0 had none */

#ifdef __cplusplus
extern "C" {
#endif

#define SQP_SQRT_BUILTIN 1 /* the compiler's: an instruction, or libm's sqrtf */
#define SQP_SQRT_DIVIDE 2  /* integers, with hardware division */
#define SQP_SQRT_BITWISE 3 /* integers, shifts and subtractions only */

#ifndef SQP_SQRT
#if defined(__ARM_FP) && (__ARM_FP & 4)
#define SQP_SQRT SQP_SQRT_BUILTIN
#elif UINT_MAX < 0xFFFFFFFF
#define SQP_SQRT SQP_SQRT_BITWISE
#elif defined(__arm__) && defined(__ARM_FEATURE_IDIV)
#define SQP_SQRT SQP_SQRT_DIVIDE
#elif defined(__arm__)
#define SQP_SQRT SQP_SQRT_BITWISE
#elif defined(__riscv) && !defined(__riscv_flen) && defined(__riscv_div)
#define SQP_SQRT SQP_SQRT_DIVIDE
#elif defined(__riscv) && !defined(__riscv_flen)
#define SQP_SQRT SQP_SQRT_BITWISE
#else
#define SQP_SQRT SQP_SQRT_BUILTIN
#endif
#endif

#if SQP_SQRT == SQP_SQRT_BUILTIN && !defined(__GNUC__)
#include <math.h>
#endif

/* The fixed-point kernels always use the integer root; bit by bit only where division is slow. */
#if SQP_SQRT == SQP_SQRT_BITWISE
#define SQP_ROOT_BITWISE 1
#else
#define SQP_ROOT_BITWISE 0
#endif

/* Returns half the number of leading zero bits of v > 0: the number of 2-bit shifts that bring v to 2^30 or more. */
static inline unsigned sqp_leading_pairs(uint32_t v) {
#if defined(__GNUC__) && UINT_MAX == 0xFFFFFFFF && !SQP_ROOT_BITWISE
    return (unsigned)__builtin_clz(v) >> 1;
#else
    unsigned pairs = 0;
    if (v < (UINT32_C(1) << 16)) { v <<= 16; pairs += 8; }
    if (v < (UINT32_C(1) << 24)) { v <<= 8; pairs += 4; }
    if (v < (UINT32_C(1) << 28)) { v <<= 4; pairs += 2; }
    if (v < (UINT32_C(1) << 30)) { pairs += 1; }
    return pairs;
#endif
}

/* Returns floor(sqrt(v) * 2^12), 28 bits, for v in [2^30, 2^32). Digit by digit: two bits of v give one bit of the root. */
static inline uint32_t sqp_root28_bitwise(uint32_t v) {
    uint32_t root = 1, rest = (v >> 30) - 1; /* the first digit is always 1 */
    int digit;
    v <<= 2;
    for (digit = 0; digit < 15; ++digit) { /* the integer digits: rest < 2^18 */
        uint32_t trial = (root << 2) + 1;
        rest = (rest << 2) + (v >> 30);
        v <<= 2;
        root <<= 1;
        if (rest >= trial) { rest -= trial; root += 1; }
    }
    for (digit = 0; digit < 12; ++digit) { /* the fraction: no bits of v are left, rest < 2^30 */
        uint32_t trial = (root << 2) + 1;
        rest <<= 2;
        root <<= 1;
        if (rest >= trial) { rest -= trial; root += 1; }
    }
    return root;
}

/* Returns the same by division: a straight line within 4.2 %, two Newton steps to 16 bits, a third to 28. */
static inline uint32_t sqp_root28_divide(uint32_t v) {
    uint32_t r = (((v >> 16) * UINT32_C(43691)) >> 16) + UINT32_C(23210);
    uint32_t rest, root;
    r = (r + v / r) >> 1;
    r = (r + v / r) >> 1; /* now floor(sqrt(v)) or 1 more, perhaps 2^16: differences wrap to the right value */
    rest = v - r * r;
    if ((int32_t)rest < 0) {
        r -= 1;
        rest += 2 * r + 1;
    }
    root = (r << 12) + (rest << 11) / r; /* rest <= 2*r < 2^17; less than 1/16 above the exact value, or truncated below it */
    return (int32_t)((v << 24) - root * root) < 0 ? root - 1 : root;
}

static inline uint32_t sqp_root28(uint32_t v) {
#if SQP_ROOT_BITWISE
    return sqp_root28_bitwise(v);
#else
    return sqp_root28_divide(v);
#endif
}

/* Returns sqrt(v) rounded to nearest, with integers only. Zeros and NaN are returned, negative v gives NaN. */
static inline float sqp_sqrtf_integer(float v) {
    uint32_t bits, fraction, root;
    int32_t exponent;
    memcpy(&bits, &v, sizeof bits);
    if ((bits << 1) == 0 || bits == UINT32_C(0x7F800000)) { return v; }
    if (bits > UINT32_C(0x7F800000)) { /* negative or NaN */
        bits = UINT32_C(0x7FC00000);
        memcpy(&v, &bits, sizeof bits);
        return v;
    }
    exponent = (int32_t)(bits >> 23) - 127;
    fraction = bits & UINT32_C(0x7FFFFF);
    if (exponent == -127) { /* subnormal: shift the leading bit into place */
        exponent = -126;
        while (fraction < UINT32_C(0x800000)) { fraction <<= 1; exponent -= 1; }
    } else {
        fraction |= UINT32_C(0x800000);
    }
    /* An even exponent is halved; the factor 2 of an odd one goes to the fraction. 28 - 24 bits are left for rounding,
     * and the root of a 24-bit input is never half-way between two floats. */
    root = sqp_root28(fraction << (7 + (exponent & 1)));
    exponent = (exponent - (exponent & 1)) / 2;
    bits = ((uint32_t)(exponent + 126) << 23) + ((root + 8) >> 4);
    memcpy(&v, &bits, sizeof bits);
    return v;
}

static inline float sqp_sqrtf(float v) {
#if SQP_SQRT != SQP_SQRT_BUILTIN
    return sqp_sqrtf_integer(v);
#elif defined(__GNUC__)
    return __builtin_sqrtf(v);
#else
    return sqrtf(v);
#endif
}

/* ---- float32 ---- */

/* Returns squareplus(x, b) by its formula. Absolute error up to 1.2e-7 * s, s = sqrt(x*x + b):
 * far to the left, where x and s cancel, y may lose all its digits. */
static inline float sqp_f32(float x, float b) {
    return 0.5f * (x + sqp_sqrtf(x * x + b));
}

/* Returns squareplus(2*z, 4*quarter_b), the same bits as sqp_f32(2*z, 4*quarter_b) (subnormals aside). */
static inline float sqp_f32_halved(float z, float quarter_b) {
    return z + sqp_sqrtf(z * z + quarter_b);
}

/* Returns squareplus(x, b) with a relative error of at most 2.4e-7 on both sides, by y(x) * y(-x) = b/4. */
static inline float sqp_f32_stable(float x, float b) {
    float size = x < 0.0f ? -x : x;
    float twice = size + sqp_sqrtf(x * x + b); /* > 0 if x < 0; half of it may be 0 */
    return x >= 0.0f ? 0.5f * twice : (0.5f * b) / twice;
}

static inline void sqp_f32_n(const float *x, float *y, size_t n, float b) {
    size_t i;
    for (i = 0; i < n; ++i) { y[i] = sqp_f32(x[i], b); }
}

static inline void sqp_f32_halved_n(const float *z, float *y, size_t n, float quarter_b) {
    size_t i;
    for (i = 0; i < n; ++i) { y[i] = sqp_f32_halved(z[i], quarter_b); }
}

static inline void sqp_f32_stable_n(const float *x, float *y, size_t n, float b) {
    size_t i;
    for (i = 0; i < n; ++i) { y[i] = sqp_f32_stable(x[i], b); }
}

static inline void sqp_f32_channels(const float *x, float *y, size_t rows, const float *b, size_t channels) {
    size_t row, c;
    for (row = 0; row < rows; ++row) {
        for (c = 0; c < channels; ++c) { *y++ = sqp_f32(*x++, b[c]); }
    }
}

/* ---- real numbers and codes ---- */

/* Returns the code of a real number as TFLM's QUANTIZE does: the nearest, halves away from zero, clipped to
 * least ... most, which lie in -65536 ... 65535. NaN gives the least code. A zero point beyond +-2^23 is taken as that. */
static inline int32_t sqp_quantize(float real, float scale, int32_t zero, int32_t least, int32_t most) {
    float steps = real / scale;
    float rest;
    int32_t code;
    if (zero > INT32_C(8388608)) { zero = INT32_C(8388608); }
    if (zero < -INT32_C(8388608)) { zero = -INT32_C(8388608); }
    if (!(steps > (float)(least - zero))) { return least; }
    if (steps >= (float)(most - zero)) { return most; }
    code = (int32_t)steps;
    rest = steps - (float)code; /* exact, unlike steps + 0.5f */
    if (rest >= 0.5f) { code += 1; }
    if (rest <= -0.5f) { code -= 1; }
    return code + zero;
}

static inline int8_t sqp_i8_quantize(float real, float scale, int32_t zero) {
    return (int8_t)sqp_quantize(real, scale, zero, -128, 127);
}

static inline int16_t sqp_i16_quantize(float real, float scale, int32_t zero) {
    return (int16_t)sqp_quantize(real, scale, zero, -INT32_C(32768), INT32_C(32767));
}

/* Returns the real number of a code; any zero point is allowed. */
static inline float sqp_dequantize(int32_t code, float scale, int32_t zero) {
    return scale * ((float)code - (float)zero);
}

/* ---- int8 by table ---- */

/* Fills table so that table[q + 128] is the output code of input code q: the exact value to nearest, halves away from
 * zero, clipped to int8. Up to 2^-13 steps may come from float32's rounding. Scales are > 0. Needs floating point, so
 * call it once, or keep a constant table. */
static inline void sqp_i8_fill(int8_t table[256], float b, float in_scale, int32_t in_zero, float out_scale,
                               int32_t out_zero) {
    int16_t q;
    for (q = -128; q < 128; ++q) {
        table[q + 128] = sqp_i8_quantize(sqp_f32_stable(sqp_dequantize(q, in_scale, in_zero), b), out_scale, out_zero);
    }
}

static inline void sqp_i8_n(const int8_t *x, int8_t *y, size_t n, const int8_t table[256]) {
    const int8_t *middle = table + 128;
    size_t i;
    for (i = 0; i < n; ++i) { y[i] = middle[x[i]]; }
}

/* The same for rows of channels; the table of channel c begins at tables + 256*c. */
static inline void sqp_i8_channels(const int8_t *x, int8_t *y, size_t rows, const int8_t *tables, size_t channels) {
    size_t row, c;
    for (row = 0; row < rows; ++row) {
        for (c = 0; c < channels; ++c) { *y++ = tables[256 * c + (size_t)(*x++ + 128)]; }
    }
}

/* ---- int16 and int8 in fixed point ---- */

typedef struct {
    uint32_t b;          /* b in squared input steps, divided by 2^square_shift: its whole part, */
    uint32_t b_fraction; /* and the rest in units of 2^-32 */
    int32_t multiplier;  /* from root to output steps: multiplier * 2^-shift */
    uint8_t shift;
    uint8_t square_shift; /* even; above 0 only if b is large compared with the input's range */
} sqp_i16_params;

/* Fills *p for input and output of int16 with zero point 0. Returns 0, or -1 if the values are not supported: a scale or
 * b out of range (scales > 0, b >= 0, b/in_scale^2 < 2^50), or a ratio in_scale/out_scale outside 2^-16 ... 2^16. */
static inline int sqp_i16_setup(sqp_i16_params *p, float b, float in_scale, float out_scale) {
    float square, ratio;
    int shift = 31;
    if (!(in_scale > 0.0f && out_scale > 0.0f && b >= 0.0f)) { return -1; }
    ratio = in_scale / out_scale;
    square = (b / in_scale) / in_scale;
    if (!(ratio >= 1.0f / 65536.0f && ratio <= 65536.0f && square < 1125899906842624.0f)) { return -1; }
    p->square_shift = 0;
    while (square >= 3221225472.0f) { /* 3 * 2^30, which leaves room for the largest square, 2^30 */
        square *= 0.25f;
        p->square_shift = (uint8_t)(p->square_shift + 2);
    }
    p->b = (uint32_t)square;
    p->b_fraction = (uint32_t)((square - (float)p->b) * 4294967296.0f); /* exact: what is left has few bits */
    while (ratio < 0.5f) { ratio *= 2.0f; shift += 1; }
    while (ratio >= 1.0f) { ratio *= 0.5f; shift -= 1; }
    p->multiplier = (int32_t)(ratio * 2147483648.0f); /* a float has 24 bits, so this is exact and below 2^31 */
    p->shift = (uint8_t)(shift + 1 + 12 - p->square_shift / 2); /* +1 for the factor 1/2, the rest for the fraction's bits */
    return 0;
}

/* Returns squareplus of q input steps in output steps, rounded to nearest, not clipped; abs(q) <= 2^15. */
static inline int64_t sqp_fixed(int32_t q, const sqp_i16_params *p) {
    uint32_t v = ((uint32_t)(q * q) >> p->square_shift) + p->b; /* a square has no fraction: nothing to carry */
    uint32_t below = p->b_fraction;
    int32_t twice = q * (INT32_C(4096) >> (p->square_shift / 2));
    unsigned pairs = 0;
    if (v == 0) { /* only the fraction is left */
        v = below;
        below = 0;
        pairs = 16;
    }
    if (v != 0) {
        unsigned more = sqp_leading_pairs(v);
        v = v << (2 * more) | (below >> 1) >> (31 - 2 * more);
        twice += (int32_t)(sqp_root28(v) >> (pairs + more));
    }
    return ((int64_t)twice * p->multiplier + (INT64_C(1) << (p->shift - 1))) >> p->shift;
}

/* Returns the output code of input code x: within half a step, plus 0.001 input steps, plus 2^-23 of the value, of the
 * exact value where b/in_scale^2 < 3 * 2^30 (a symmetric input range of 1.2 or more at b = 4). */
static inline int16_t sqp_i16(int16_t x, const sqp_i16_params *p) {
    int64_t y = sqp_fixed(x, p);
    return (int16_t)(y > 32767 ? 32767 : y < 0 ? 0 : y);
}

static inline void sqp_i16_n(const int16_t *x, int16_t *y, size_t n, const sqp_i16_params *p) {
    size_t i;
    for (i = 0; i < n; ++i) { y[i] = sqp_i16(x[i], p); }
}

/* The same for rows of channels, channel c by p[c]. */
static inline void sqp_i16_channels(const int16_t *x, int16_t *y, size_t rows, const sqp_i16_params *p,
                                    size_t channels) {
    size_t row, c;
    for (row = 0; row < rows; ++row) {
        for (c = 0; c < channels; ++c) { *y++ = sqp_i16(*x++, p + c); }
    }
}

typedef struct {
    sqp_i16_params steps;
    int16_t in_zero, out_zero;
} sqp_i8_params;

/* Fills *p for int8 with zero points from -128 to 127. Returns 0, or -1 if the values are not supported: see
 * sqp_i16_setup. */
static inline int sqp_i8_setup(sqp_i8_params *p, float b, float in_scale, int32_t in_zero, float out_scale,
                               int32_t out_zero) {
    if (in_zero < -128 || in_zero > 127 || out_zero < -128 || out_zero > 127) { return -1; }
    p->in_zero = (int16_t)in_zero;
    p->out_zero = (int16_t)out_zero;
    return sqp_i16_setup(&p->steps, b, in_scale, out_scale);
}

/* Returns the output code of input code x, as near to the exact value as sqp_i16. A table is faster and takes 256 bytes. */
static inline int8_t sqp_i8_direct(int8_t x, const sqp_i8_params *p) {
    int64_t y = sqp_fixed((int32_t)x - p->in_zero, &p->steps) + p->out_zero;
    return (int8_t)(y > 127 ? 127 : y < p->out_zero ? p->out_zero : y);
}

static inline void sqp_i8_direct_n(const int8_t *x, int8_t *y, size_t n, const sqp_i8_params *p) {
    size_t i;
    for (i = 0; i < n; ++i) { y[i] = sqp_i8_direct(x[i], p); }
}

#ifdef __cplusplus
}
#endif

#endif /* SQP_H_ */

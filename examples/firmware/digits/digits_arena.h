/* The memory in which TFLM keeps the tensors of `digits.keras`. Made by sqp-export. Do not edit. */
#ifndef DIGITS_ARENA_H_
#define DIGITS_ARENA_H_

#include <stdint.h>

/* 5664 is the smallest size with which tflite-micro 0.dev20261023182759 allocated and ran the model
   (temporary buffers included). It was measured on a 64-bit machine with the reference kernels.
   A 32-bit target, whose pointers are half as long, needs between 3952 and 5104: 5104 suffices.
   Optimised kernels (CMSIS-NN, ESP-NN) may need more, for scratch buffers: if digits_prepare returns
   DIGITS_SMALL_ARENA, define a larger size. The smallest one on your target is found by building the self-test with
   DIGITS_FIND_ARENA; what digits_arena_used returns is less than what allocation needs. */
#ifndef DIGITS_ARENA_BYTES
#if UINTPTR_MAX <= 0xFFFFFFFFu
#define DIGITS_ARENA_BYTES 5104
#else
#define DIGITS_ARENA_BYTES 5664
#endif
#endif

/* In front of the runner's own arena: a linker section, e.g. __attribute__((section(".dtcm"))). With DIGITS_NO_ARENA the
   runner has no arena of its own: call digits_prepare_in. */
#ifndef DIGITS_ARENA_ATTRIBUTE
#define DIGITS_ARENA_ATTRIBUTE
#endif

/* The size of all tensors at the memory peak: ADD in strokes. */
#define DIGITS_PEAK_TENSOR_BYTES 2880

#endif /* DIGITS_ARENA_H_ */

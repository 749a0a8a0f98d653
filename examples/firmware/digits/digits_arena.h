/* The memory in which TFLM keeps the tensors of `digits.keras`. Made by sqp-export. Do not edit. */
#ifndef DIGITS_ARENA_H_
#define DIGITS_ARENA_H_

/* 5664 is the smallest size with which tflite-micro 0.dev20261023182759 allocated and ran the model
   (found in 3 trials; temporary buffers included). It was measured on a 64-bit machine
   with the reference kernels, and is an upper bound for a 32-bit target, whose pointers are half as long;
   such a target needs between 3952 and 5104. Optimised kernels (CMSIS-NN, ESP-NN) may need more,
   for scratch buffers: the self-test prints what was used; keep 16 bytes above that. */
#ifndef DIGITS_ARENA_BYTES
#define DIGITS_ARENA_BYTES 5664
#endif

/* The size of all tensors at the memory peak: ADD in strokes. */
#define DIGITS_PEAK_TENSOR_BYTES 2880

#endif /* DIGITS_ARENA_H_ */

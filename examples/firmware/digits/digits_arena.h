/* The memory in which TFLM keeps the tensors of `digits.keras`. Made by sqp-export. Do not edit. */
#ifndef DIGITS_ARENA_H_
#define DIGITS_ARENA_H_

/* 5664 is the smallest size with which tflite-micro 0.dev20261023182759 allocated and ran the model
   (found in 18 trials; temporary buffers included). That was on a 64-bit machine: an upper
   bound for a 32-bit one, whose pointers are half as long, with the reference kernels. Such a
   target needs between 3952 and 5104. Kernels made for one processor (CMSIS-NN, ESP-NN)
   may ask for scratch buffers on top: the self-test prints what was used; keep 16 above it. */
#ifndef DIGITS_ARENA_BYTES
#define DIGITS_ARENA_BYTES 5664
#endif

/* The most that tensors take at one moment: ADD in strokes. */
#define DIGITS_PEAK_TENSOR_BYTES 2880

#endif /* DIGITS_ARENA_H_ */

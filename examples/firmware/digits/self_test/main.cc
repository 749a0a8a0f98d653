// A program that runs the self-test of `digits.keras`, and nothing else. Made by sqp-export. Do not edit.
#include <stdio.h>

#include "digits_runner.h"

extern "C" {

// Where the text goes: standard output. Define a function of this name elsewhere to send it to a UART, RTT or the
// debugger: it replaces this one. With DIGITS_NO_STDIO there is none here.
#ifndef DIGITS_NO_STDIO
__attribute__((weak)) void digits_print(const char* text) {
  fputs(text, stdout);
  fflush(stdout);
}
#else
void digits_print(const char* text);
#endif

// TFLM's build for TARGET=cortex_m_generic is silent until it is given a function; other builds do not have this one.
__attribute__((weak)) void RegisterDebugLogCallback(void (*print)(const char* text));

}  // extern "C"

int main() {
  if (RegisterDebugLogCallback != nullptr) RegisterDebugLogCallback(digits_print);
  const int failed = digits_self_test();
#ifdef DIGITS_FIND_ARENA
  digits_find_arena();
#endif
  return failed;
}

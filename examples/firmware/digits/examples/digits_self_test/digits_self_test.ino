// Runs the self-test of `digits.keras` once, and prints PASS or FAIL on the serial port. Made by sqp-export.
#include <digits_runner.h>

void setup() {
  Serial.begin(115200);
  while (!Serial) {
  }
  Serial.println(digits_self_test() == 0 ? "PASS" : "FAIL");
}

void loop() {}

/* Memory and comparison for kernels that run without the device. */
#include <stdio.h>
#include <stdlib.h>

#define GUARD 64

static FILE *data, *results;

static void broken(const char *what) {
  printf("broken: %s\n", what);
  exit(2);
}

/* Opens the file of the data, and that of the results if there is one. */
static void begin(int count, char **names) {
  if (count < 2 || !(data = fopen(names[1], "rb"))) broken("no data");
  if (count > 2 && !(results = fopen(names[2], "wb"))) broken("no room for results");
}

/* Writes bytes of an output to the results. */
__attribute__((unused)) static void result(const unsigned char *p, size_t size) {
  if (fwrite(p, 1, size, results) != size || fflush(results)) broken("no room for results");
}

/* Aligned as buffers are; every float in it is NaN. */
static unsigned char *room(size_t size) {
  size_t all = (size + GUARD + 63) / 64 * 64;
  unsigned char *p = aligned_alloc(64, all);
  if (!p) broken("out of memory");
  memset(p, 0xff, all);
  return p;
}

/* Makes it as room() does. */
static void spoil(unsigned char *p, size_t size) { memset(p, 0xff, size); }

/* As room(), beginning with the next bytes of the data, then zeros. */
static unsigned char *given(size_t size, size_t known) {
  unsigned char *p = room(size);
  if (known && fread(p, 1, known, data) != known) broken("the data is too short");
  memset(p + known, 0, size - known);
  return p;
}

/* Whether a kernel wrote behind the end of a buffer. */
__attribute__((unused)) static int overrun(const char *program, const char *buffer, const unsigned char *p, size_t size) {
  for (size_t i = size; i < size + GUARD; i++)
    if (p[i] != 0xff) {
      printf("mismatch: %s: byte %zu of %s was written, and it has %zu\n", program, i, buffer, size);
      return 1;
    }
  return 0;
}

/* Whether n values are not those of the data: mean squared error over mean
   square, where equal NaNs and infinities are no error. */
__attribute__((unused)) static int differs(const char *program, const char *output, const unsigned char *got, int is_float, size_t n, double most) {
  unsigned char *expected = given(4 * n, 4 * n);
  double error = 0, size = 0;
  size_t first = n;
  for (size_t i = 0; i < n; i++) {
    float g, w;
    int32_t whole;
    memcpy(&w, expected + 4 * i, 4);
    memcpy(&g, got + 4 * i, 4);
    memcpy(&whole, got + 4 * i, 4);
    if (!is_float) g = whole;
    if (isfinite(w)) size += (double)w * w;
    if (g == w || (isnan(g) && isnan(w))) continue;
    double e = (double)g - w;
    error += e * e;
    if (first == n || !isfinite(e)) first = i;
  }
  free(expected);
  if (first == n || error / (size > 0 ? size : 1e-300) <= most) return 0;
  printf("mismatch: %s: nmse of %s is %g, for example at %zu of %zu\n", program, output, error / size, first, n);
  return 1;
}

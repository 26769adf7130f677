// The largest error of a float32 function, as accuracy.py defines it, against the double precision of the C library.
#include <math.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

static double sigmoid(double x) {
    double e = exp(-fabs(x));
    return (x < 0 ? e : 1) / (1 + e);
}

static double gated(double x, double exponent) {
    double e = exp(-fabs(exponent));
    return x < 0 ? (e == 0 ? -0.0 : x * e) / (1 + e) : x / (1 + e);
}

static double silu(double x) { return gated(x, x); }

static double gelu_tanh(double x) { return gated(x, sqrt(8 / M_PI) * x * (1 + 0.044715 * x * x)); }

static double gelu(double x) {
    double size = fabs(x) < 40 ? fabs(x) : isnan(x) ? x : 40;
    return (signbit(x) ? -0.0 : x) - size * erfc(size / sqrt(2)) / 2;
}

static double softplus(double x) { return fmax(x, 0) + log1p(exp(-fabs(x))); }

static double mish(double x) {
    double e = exp(-fabs(x));
    return x < 0 ? (e == 0 ? -0.0 : x * (e * (2 + e) / (2 + 2 * e + e * e)))
                 : x * ((1 + 2 * e) / (1 + 2 * e + 2 * e * e));
}

static double rsqrt(double x) { return 1 / sqrt(x); }

static const struct {
    const char *name;
    double (*exact)(double);
} functions[] = {
    {"acos", acos}, {"acosh", acosh}, {"asin", asin}, {"asinh", asinh}, {"atan", atan}, {"atanh", atanh},
    {"cos", cos}, {"cosh", cosh}, {"erf", erf}, {"exp", exp}, {"exp2", exp2}, {"expm1", expm1}, {"gelu", gelu},
    {"gelu_tanh", gelu_tanh}, {"log", log}, {"log10", log10}, {"log1p", log1p}, {"log2", log2}, {"mish", mish},
    {"rsqrt", rsqrt}, {"sigmoid", sigmoid}, {"silu", silu}, {"sin", sin}, {"sinh", sinh}, {"softplus", softplus},
    {"tan", tan}, {"tanh", tanh},
};

static double clipped(double x) { return x > 0x1p128 ? 0x1p128 : x < -0x1p128 ? -0x1p128 : x; }

static double unit(double x) {
    int64_t bits;
    memcpy(&bits, &x, 8);
    int64_t exponent = ((bits >> 52) & 2047) - 1023;
    exponent = exponent < -126 ? -126 : exponent > 127 ? 127 : exponent;
    bits = (exponent - 23 + 1023) << 52;
    memcpy(&x, &bits, 8);
    return x;
}

static double error(double exact, float y) {
    if ((isnan(exact) && isnan(y)) || (exact == y && signbit(exact) == signbit(y))) return 0;
    double wanted = clipped(exact), units = fabs(clipped(y) - wanted) / unit(wanted);
    return exact == 0 || isnan(units) ? INFINITY : units;
}

// Where the error is largest, and how large; count if there is no such function.
size_t worst(const char *name, const float *x, const float *y, size_t count, double *units) {
    double (*exact)(double) = NULL;
    for (size_t i = 0; i < sizeof functions / sizeof *functions; i++)
        if (strcmp(functions[i].name, name) == 0) exact = functions[i].exact;
    if (!exact || !count) return count;
    size_t place = 0;
    *units = -1;
    for (size_t i = 0; i < count; i++) {
        double found = error(exact(x[i]), y[i]);
        if (found > *units) *units = found, place = i;
    }
    return place;
}

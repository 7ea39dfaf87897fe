#pragma once // in place of Thrust's own, which CuPy's complex.cuh includes and which wants nvcc
#define THRUST_NAMESPACE_BEGIN namespace thrust {
#define THRUST_NAMESPACE_END }

import numpy as np

from eigentensor import TensorContext, execute_graph_on_gpu

context = TensorContext()
a = context.add_graph_input("matrix_a", (256, 256))
b = context.add_graph_input("matrix_b", (256, 256))
program = context.compile_to_graph(a @ b)
x = np.random.default_rng(0).standard_normal((2, 256, 256), dtype=np.float32)
result = execute_graph_on_gpu(program, {"matrix_a": x[0], "matrix_b": x[1]})
print(program.uuid, result.shape)

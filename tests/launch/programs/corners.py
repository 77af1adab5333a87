"""What is hard to count: traces of one function, loops, nested calls, fallbacks, eager copies."""

import tensorflow as tf

cpu = tf.config.list_physical_devices("CPU")[0]
tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * 2)
FIRST, SECOND = "/CPU:0", "/CPU:1"


@tf.function(jit_compile=False)
def traced_per_shape(x):
    with tf.device(FIRST):
        sent = tf.multiply(x, 2.0, name="sent")
    with tf.device(SECOND):
        return tf.reduce_sum(tf.exp(sent))


@tf.function(jit_compile=False, input_signature=[tf.TensorSpec([None, 10])])
def traced_once(x):
    with tf.device(FIRST):
        sent = tf.multiply(x, 2.0, name="sent")
    with tf.device(SECOND):
        return tf.reduce_sum(tf.exp(sent))


@tf.function(jit_compile=False)
def steady_loop(x):
    for _ in tf.range(5):
        with tf.device(SECOND):
            y = tf.matmul(x, x, transpose_b=True, name="there")
        with tf.device(FIRST):
            x = tf.matmul(y, x, name="back")
    return x


@tf.function(jit_compile=False)
def growing_loop(x):
    for _ in tf.range(3):
        tf.autograph.experimental.set_loop_options(
            shape_invariants=[(x, tf.TensorShape([None, 10]))]
        )
        with tf.device(SECOND):
            y = tf.exp(x, name="there")
        with tf.device(FIRST):
            x = tf.concat([x, y], 0, name="back")
    return tf.reduce_sum(x)


@tf.function(jit_compile=False, experimental_attributes={"_noinline": True})
def inner(x):
    with tf.device(FIRST):
        sent = tf.multiply(x, 3.0, name="sent_within")
    with tf.device(SECOND):
        return tf.reduce_sum(tf.exp(sent))


@tf.function(jit_compile=False)
def outer(x):
    return inner(x) + 1.0


@tf.function(jit_compile=False)
def falls_back(x):
    with tf.device("/GPU:1"):
        return tf.exp(x, name="asked_for_a_gpu")


@tf.function(jit_compile=False)
def two_outputs(x):
    with tf.device(FIRST):
        small, large = tf.split(tf.exp(x), [2, 8], axis=1, name="halves")
    with tf.device(SECOND):
        return tf.reduce_sum(tf.tanh(large)) + tf.reduce_sum(tf.tanh(small))


@tf.function(jit_compile=False)
def takes_batches(batches):
    rows, weights = next(batches)
    with tf.device(FIRST):
        sent = tf.multiply(rows, weights, name="sent_rows")
        products = tf.matmul(sent, sent, transpose_b=True, name="sent_pairs")
    with tf.device(SECOND):
        return tf.reduce_sum(tf.exp(sent)) + tf.reduce_sum(tf.exp(products))


@tf.function(jit_compile=False)
def sends_text(words):
    with tf.device(FIRST):
        sent = tf.strings.upper(words, name="sent_text")
    with tf.device(SECOND):
        return tf.strings.length(sent)


with tf.device(FIRST):
    wide, narrow = tf.ones([64, 10]), tf.ones([43, 10])
    words = tf.constant(["a", "b"])
for _ in range(3):
    traced_per_shape(wide)
for _ in range(2):
    traced_per_shape(narrow)
traced_once(wide)
traced_once(narrow)
steady_loop(wide)
growing_loop(wide)
outer(wide)
outer(wide)
falls_back(wide)
two_outputs(wide)
sends_text(words)
# Batches of 32, 32 and 6 rows.
batches = iter(tf.data.Dataset.from_tensor_slices((tf.ones([70, 10]), tf.ones([70, 1]))).batch(32))
for _ in range(3):
    takes_batches(batches)
with tf.device(SECOND):
    for _ in range(4):
        tf.linalg.matmul(narrow, narrow, transpose_b=True)

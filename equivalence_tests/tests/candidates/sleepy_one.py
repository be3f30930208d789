"""Its import does nothing for a long time."""

import time

time.sleep(100)


def softmax(X):
    return X

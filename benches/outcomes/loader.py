"""loader.py FOLDER ITEMS: a data loader like those of machine learning. Two worker processes read and decompress the
files FOLDER/0 ... FOLDER/7 in turn and put a part of them into a queue; the first process adds up what it takes out."""

import multiprocessing
import sys
import zlib

WORKERS, FILES, AHEAD, STEP = 2, 8, 4, 4096


def worker(folder, number, items, queue):
    for item in range(number, items, WORKERS):
        with open(f"{folder}/{item % FILES}", "rb") as file:
            data = zlib.decompress(file.read())
        queue.put(data[::STEP])


def main():
    folder, items = sys.argv[1], int(sys.argv[2])
    queue = multiprocessing.Queue(AHEAD)
    workers = [multiprocessing.Process(target=worker, args=(folder, number, items, queue)) for number in range(WORKERS)]
    for process in workers:
        process.start()
    print(sum(sum(queue.get()) for _ in range(items)))
    for process in workers:
        process.join()


main()

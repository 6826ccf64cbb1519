// JavaScript that burns a second of CPU time in a named function, which a named function calls.
"use strict";

function burnsInNode(rounds) {
    let x = 1;
    for (let i = 0; i < rounds; i++) x = (Math.imul(x, 1103515245) + 12345) | 0;
    return x;
}

function callsBurnsInNode(milliseconds) {
    const end = process.cpuUsage().user + milliseconds * 1000;
    let sum = 0;
    while (process.cpuUsage().user < end) sum ^= burnsInNode(300000);
    return sum;
}

console.log(callsBurnsInNode(1000));

"""Writes openai/gsm8k as the parquet files that verl reads: train.parquet and test.parquet.

    python3 make_data.py FOLDER

A row holds a conversation of one question and the number that its answer must end in, behind "####", which verl's own
reward of this data set looks for (verl/utils/reward_score). Put your own rows in the place of these: `data_source`
names the reward, `reward_model.ground_truth` what it compares with.
"""
import os
import sys


def row_of(question, answer, split, number):
    return {'data_source': 'openai/gsm8k',
            'prompt': [{'role': 'user', 'content': question + ' Think step by step, and end with "#### " and the number alone.'}],
            'ability': 'math',
            'reward_model': {'style': 'rule', 'ground_truth': answer.split('####')[-1].strip().replace(',', '')},
            'extra_info': {'split': split, 'index': number}}


def main(folder):
    import datasets
    os.makedirs(folder, exist_ok=True)
    for split in ('train', 'test'):
        rows = datasets.load_dataset('openai/gsm8k', 'main', split=split)
        rows = rows.map(lambda row, number: row_of(row['question'], row['answer'], split, number), with_indices=True,
                        remove_columns=rows.column_names)
        rows.to_parquet(os.path.join(folder, split + '.parquet'))


if __name__ == '__main__':
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    main(sys.argv[1])

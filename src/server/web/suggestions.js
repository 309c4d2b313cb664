// Suggestions for an empty conversation: questions that show the server's features in one click. The bundled model was
// trained on such questions, and a large model answers them as well.

export const WEATHER_TOOL = [{
  type: 'function',
  function: {
    name: 'get_weather',
    description: 'Get the weather in a city',
    parameters: {type: 'object', properties: {city: {type: 'string', description: 'The city'}}, required: ['city']},
  },
}];

// Longer than the 256 positions that the bundled model attends to, so that the Attention view has something to show.
const RECALL = `Once upon a time, there was a playful rabbit named Nina. Nina lived near the market.

One cloudy morning, Nina lost his purple ball. "Where is my ball?" he cried. He asked Dan the hedgehog for help. \
"Let us look together," said Dan. They walked through the market and called out loud.

At last they saw the purple ball under a big tree. Nina was so happy that he danced. From that day on, Nina and \
Dan were best friends.

The secret number of Ada is 4718.

Once upon a time, there was a cheerful mouse named Kurt. Kurt lived near the forest.

On a windy day, Kurt wanted to make a white coat for a friend. But it was very hard. He asked Yara the duck, who \
was old and wise. "Go slowly," said Yara, "and start again."

They worked until the evening. In the end the white coat was ready, and it was beautiful. From that day on, Kurt \
and Yara were best friends.

The secret number of Max is 2093.

There was once a clever pig. He was called Xena and his home was in the village.

On a foggy day, Xena wanted to make a blue boat for a friend. But it was very hard. He asked Tess the beaver, \
who was old and wise. "Go slowly," said Tess, "and start again."

They worked until the evening. In the end the blue boat was ready, and it was beautiful. Xena learned that it is \
good to be kind.

What is the secret number of Ada?`;

// `tools` go into the settings, `result` into the field for what the tool said; `temperature` holds unless the settings have one.
export const SUGGESTIONS = [
  {title: 'Work out a sum', hint: 'What is 357 + 286?', text: 'What is 357 + 286?', temperature: 0},
  {title: 'Tell a story', hint: 'About a fox named Mia', text: 'Tell me a story about a fox named Mia.'},
  {title: 'Find a fact again', hint: 'A number, hidden in a text', text: RECALL, temperature: 0},
  {title: 'Call a tool', hint: 'What is the weather in Paris?', text: 'What is the weather in Paris?', tools: WEATHER_TOOL, temperature: 0,
   result: '{"weather": "sunny", "temperature": 21}'},
];
